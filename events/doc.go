// Package events says what a fact is and what a log of facts must do: the form
// of facts on the wire ([Encode], [Decode]), the port to whatever stores them
// ([Log]), a complete log in memory ([Memory]) and the one way to change
// anything, a decision recorded by compare-and-set ([Recorder]).
//
// The form on the wire is a contract with other programs: schema/ holds a JSON
// Schema of each type and testdata/ an example. Types and fields may be added;
// none may change its meaning.
package events
