// The token stands after the # of the link: browsers send that to no server. It is posted, and leaves the address.
(() => {
  "use strict";
  const form = document.getElementById("open");
  const token = decodeURIComponent(location.hash.slice(1));
  const guest = document.getElementById("guest");
  if (!token) {
    // A frame that nobody gave a token is a guest's, who pressed its button already.
    if (guest && window.parent !== window) guest.submit();
    return;
  }
  if (guest) guest.hidden = true;
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.token.value = token;
  form.hidden = true;
  document.getElementById("opening").hidden = false;
  form.submit();
})();
