// Package integration holds nothing but folders: in each are tests of one promise, which drive the
// millrace binary as its users do: they type its commands, and kill, stop and starve its processes on
// the way.
//
// What a command says stands in the scripts below faces/testdata; what survives the death of a
// process is in the Go files. Package place is where a test happens: it has its folders, ports and
// processes for itself, waits for what it expects instead of sleeping, and fails if it leaves a
// process or a temporary folder behind.
//
// The flag -long makes the tests that kill things do it more often.
package integration
