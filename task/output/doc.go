// Package output holds the stored form of a program's output: lines and records, and the standing
// of its attempt, with a checkpoint from which another attempt continues. It stores nothing itself.
package output
