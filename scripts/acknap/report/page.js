// A box says that it scrolls while its table is wider than it is.
const mark = () => document.querySelectorAll(".wide").forEach((box) =>
  box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth));
addEventListener("load", mark);
addEventListener("resize", mark);
addEventListener("toggle", mark, true);
