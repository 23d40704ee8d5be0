// Names for screen readers, and boxes that scroll by keyboard, where the theme's script makes neither.
(() => {
  const mend = () => {
    document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
      box.tabIndex = 0;
    }
    const version = document.querySelector("button.md-version__current");
    const name = version && `Version ${version.textContent.trim()}, choose another`;
    if (version && version.getAttribute("aria-label") !== name) {
      version.setAttribute("aria-label", name);
    }
  };
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
  mend();
})();
