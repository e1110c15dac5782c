// Package pages shows Millrace in a browser. A page is made from the world at a moment, as
// [api.Desk.See] shows it, so the past needs no pages of its own. Its buttons perform verbs of the
// service, under the rights of the user. The package holds no rules about tasks; it decides only
// how things look.
//
// A page is a file with a [page] and a file of templates of the same name. docs/pages.md says how
// to add one.
package pages
