// Dark or light, before anything is drawn: the person's own choice, else the system's.
(() => {
  const KEY = "autotune-theme";
  const CHOICES = ["auto", "light", "dark"];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const saved = () => {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto"; // storage may be forbidden; the system's choice is good enough then
    }
  };
  const apply = (choice) => {
    const theme = choice === "auto" ? (dark.matches ? "dark" : "light") : choice;
    document.documentElement.dataset.theme = theme;
    document.getElementById("theme").textContent = `Theme: ${choice}`;
    document.dispatchEvent(new CustomEvent("theme"));
  };
  let choice = CHOICES.includes(saved()) ? saved() : "auto";
  apply(choice);
  dark.addEventListener("change", () => apply(choice));
  document.getElementById("theme").addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // Not remembered then; it holds until the page is left.
    }
    apply(choice);
  });
})();
