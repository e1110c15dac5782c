// Package output holds what the program of a task says, as it is stored: lines and records, and how its attempt
// stands, with a checkpoint from which another one goes on.
package output
