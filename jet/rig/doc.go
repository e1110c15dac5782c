// Package rig has what tests of package jet and of its rooms need: servers and connections that end with the test, ids that no
// other test has, and facts. It imports neither jet nor a room below it that is tested with it.
package rig
