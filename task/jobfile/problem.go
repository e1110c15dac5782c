package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task/job"
)

// Problem is one error in a file.
type Problem struct {
	// File is the name given to [Parse].
	File string `json:"-"`
	// Line and Column count from 1, in characters. Both are 0 if the problem is about the file as a
	// whole.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the field, for example "retry.max" or "run.argv[2]"; empty if the
	// document or the file as a whole is meant.
	Path string `json:"path,omitempty"`
	// Message explains the problem and its remedy. It names the field where there is one.
	Message string `json:"message"`
}

// Report is the result of checking a job file.
type Report struct {
	// Jobs are the names of the jobs in the file; none if it has a problem.
	Jobs []string `json:"jobs"`
	// Problems are what is wrong with it, in the order of its lines.
	Problems []Problem `json:"problems"`
}

// ReportOf returns what [Parse] has returned as a report.
func ReportOf(jobs []job.Job, err error) Report {
	r := Report{Jobs: []string{}, Problems: []Problem{}}
	for i := range jobs {
		r.Jobs = append(r.Jobs, jobs[i].Name)
	}
	var problems Errors
	switch {
	case errors.As(err, &problems):
		r.Problems = append(r.Problems, problems...)
	case err != nil:
		r.Problems = append(r.Problems, Problem{Message: err.Error()})
	}
	return r
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
