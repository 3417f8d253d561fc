// Shows the rows that the form asks for, and how many.
const form = document.querySelector('.filters');
const suites = [...document.querySelectorAll('details')].map(details => ({
  details,
  rows: [...details.querySelectorAll('tbody tr')].map(row => ({
    row,
    kinds: row.dataset.kinds.split(' '),
    text: (details.querySelector('summary').textContent + '/' + row.textContent).toLowerCase(),
  })),
}));
function filter() {
  const kind = form.show.value;
  const words = form.words.value.toLowerCase().split(/\s+/).filter(word => word);
  let shown = 0;
  for (const { details, rows } of suites) {
    let here = 0;
    for (const { row, kinds, text } of rows) {
      const wanted = (kind === 'all' || kinds.includes(kind)) && words.every(word => text.includes(word));
      row.classList.toggle('hidden', !wanted);
      here += wanted;
    }
    details.classList.toggle('hidden', !here);
    if (here && (kind !== 'all' || words.length)) details.open = true;
    shown += here;
  }
  document.getElementById('shown').textContent = `${shown} shown`;
}
form.addEventListener('input', filter);
form.addEventListener('submit', event => event.preventDefault());
filter();
