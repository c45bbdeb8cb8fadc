// Texts that do not stand out from what is behind them as WCAG 2.2 AA asks (1.4.3).
const parse = text => (text.match(/[\d.]+/g) || []).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const behind = element => { for (let e = element; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
const poor = [];
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility() || element.closest('script, style, .skip')) continue;
  const style = getComputedStyle(element), ink = element.closest('svg') ? style.fill : style.color;
  const a = luminance(parse(ink)), b = luminance(behind(element)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
  if (ratio < (large ? 3 : 4.5)) poor.push(`${element.tagName}.${element.getAttribute('class')} ${ratio.toFixed(2)} ${element.textContent.slice(0, 30)}`);
}
return poor;
