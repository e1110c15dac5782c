// Package book has the promises I-1 to I-11, and the book that is kept of them while a log is read: what was checked, what is broken,
// and what could not be judged. A [Report] is its sum; what the rules look at is package verify's business.
package book
