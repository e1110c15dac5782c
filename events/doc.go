// Package events defines facts and logs of facts: the form of facts on the wire ([Encode],
// [Decode]), the port to a store of them ([Log]), a complete log in memory ([Memory]), and the only
// way to change state, a decision recorded by compare-and-set ([Recorder]). It decides nothing
// itself: the rules are in packages task and node.
//
// The form on the wire is a contract with other programs: schema/ holds a JSON Schema of each type
// and testdata/ an example. Types and fields may be added. None may change its meaning.
package events
