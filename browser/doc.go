// Package browser looks at the pages of Millrace with a real browser: its tests
// start `millrace demo --keep`, open each page to which the navigation leads in
// Chromium, and do what people do there. Nothing of a page's policy is put aside
// for that. They also make the screenshots of the README.
package browser
