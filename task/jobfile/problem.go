package jobfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	// File is the name that was given to [Parse].
	File string
	// Line and Column count from 1, a column being a character; both are 0 if
	// the file as a whole is meant.
	Line, Column int
	// Path is the field, for example "retry.max" or "run.argv[2]"; empty if the
	// document or the file as a whole is meant.
	Path string
	// Message says in words what is wrong and what to write instead. It names
	// the field where there is one.
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

// Errors are all the problems of a file, in the order of their lines.
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

// maxProblems bounds what is reported of one file: whoever has more to mend
// begins with these, and a hostile file cannot make the report outgrow itself.
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

// err returns what was collected, or nil. A mistake in something that several
// aliases repeat is one problem.
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
