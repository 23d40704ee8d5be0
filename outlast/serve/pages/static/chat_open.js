// The token stands after the # of the link: browsers send that to no server. It is posted, and leaves the address.
(() => {
  "use strict";
  const form = document.getElementById("open");
  const token = decodeURIComponent(location.hash.slice(1));
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.token.value = token;
  form.hidden = true;
  document.getElementById("opening").hidden = false;
  form.submit();
})();
