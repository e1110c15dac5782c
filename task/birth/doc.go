// Package birth makes births of tasks: what a submission becomes, alone, as a copy of another task, or as a
// child that a running task asks for. It decides nothing that needs the log; package desk does.
package birth
