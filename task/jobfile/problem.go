package jobfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one error in a file.
type Problem struct {
	// File is the name given to [Parse].
	File string
	// Line and Column count from 1, in characters. Both are 0 if the problem is about the file as a
	// whole.
	Line, Column int
	// Path is the field, for example "retry.max" or "run.argv[2]"; empty if the
	// document or the file as a whole is meant.
	Path string
	// Message explains the problem and its remedy. It names the field where there is one.
	Message string
}

// Error returns the problem in the form "hello.yaml:7:3: message".
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	return b.String() + p.Message
}

// Errors are all problems of a file, in the order of their lines.
type Errors []Problem

// Error returns the problems, one per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems one by one, for [errors.As].
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, p := range e {
		all[i] = p
	}
	return all
}

// maxProblems bounds the problems reported for one file. An author with more begins with these, and
// a hostile file cannot cause a huge report.
const maxProblems = 100

// report collects the problems of one file.
type report struct {
	file     string
	problems Errors
	omitted  int
}

func (r *report) add(pos position, path, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.omitted++
		return
	}
	r.problems = append(r.problems, Problem{
		File: r.file, Line: pos.line, Column: pos.column, Path: path,
		Message: fmt.Sprintf(format, args...),
	})
}

// err returns the collected problems, or nil. An error in a part that several aliases repeat is one
// problem.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := slices.Compact(r.problems)
	if r.omitted > 0 {
		all = append(all, Problem{File: r.file, Message: fmt.Sprintf("%d more problems are not shown", r.omitted)})
	}
	return all
}
