// Faults in names, roles and headings, in words.
const faults = [];
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) faults.push(`id twice: ${id}`);
for (const e of document.querySelectorAll('input, select, textarea')) if (!e.labels.length && !e.getAttribute('aria-label')) faults.push(`no label: ${e.id}`);
for (const e of document.querySelectorAll('[aria-labelledby]')) if (!document.getElementById(e.getAttribute('aria-labelledby'))) faults.push('dangling label');
for (const e of document.querySelectorAll('table')) {
  if (!e.caption || !e.caption.textContent.trim()) faults.push('table without caption');
  for (const th of e.querySelectorAll('th')) if (!th.scope) faults.push(`th without scope: ${th.textContent}`);
}
for (const e of document.querySelectorAll('svg')) if (e.getAttribute('aria-hidden') !== 'true' && !e.getAttribute('aria-label')) faults.push('svg without name');
for (const e of document.querySelectorAll('a, button')) if (!e.textContent.trim()) faults.push('link without text');
for (const e of document.querySelectorAll('.scroll')) if (e.tabIndex !== 0 || !e.getAttribute('aria-label')) faults.push('scrolling part that no key reaches');
for (const a of document.querySelectorAll('nav a')) if (!document.getElementById(a.hash.slice(1))) faults.push(`dead link ${a.hash}`);
if (document.querySelectorAll('h1').length !== 1) faults.push('not one h1');
if (document.querySelectorAll('main').length !== 1) faults.push('not one main');
let level = 0;
for (const h of document.querySelectorAll('h1, h2, h3, h4')) if (h.checkVisibility()) { const n = Number(h.tagName[1]); if (n > level + 1) faults.push(`heading skips to ${h.textContent}`); level = n; }
if (document.documentElement.lang !== 'en') faults.push('no language');
if (!document.title) faults.push('no title');
return faults;
