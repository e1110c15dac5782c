// Package browser checks the pages of Millrace with a real browser: its tests start `millrace demo
// --keep`, open each page that the navigation leads to in Chromium, and act there as users do,
// under the full policy of each page. They also take the screenshots of the README.
package browser
