// Package book has the promises I-1 to I-11, and the book of results that is kept while a log is
// read: what was checked, what is broken, and what could not be judged. A [Report] is its sum. The
// checks themselves are in package verify.
package book
