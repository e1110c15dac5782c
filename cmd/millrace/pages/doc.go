// Package pages shows Millrace to a browser. A page is made of the world at a moment, as [api.Desk.See] shows it, so that the past
// needs no pages of its own, and what its buttons do are the verbs of the service, under the rights of who presses them. It has no
// rules of its own about tasks; what is its own is how things look.
//
// A page is a file with a [page] and a file of templates of the same name. docs/pages.md says how one is added.
package pages
