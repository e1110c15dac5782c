// Package birth makes births of tasks: what a submission becomes, alone, as a copy of another task, or as a
// child that a running task asks for. It decides nothing that needs the log; package submit does.
//
// It holds the rules of unique keys: which task has one, and which submission gets it next.
//
// It holds the rules of parents and their children: which children a parent has, what each of
// them is born as, and what becomes of the parent when they end.
package birth
