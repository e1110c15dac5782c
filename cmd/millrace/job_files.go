package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/task"
	"millrace/task/jobfile"
)

// maxJobFile is more than [jobfile.Parse] takes; what is larger is not read to its end.
const maxJobFile = 2 << 20

// fileOf is what one file defines, or what is wrong with it.
type fileOf[D any] struct {
	name string
	all  []D
	err  error
}

// parseFiles reads files, folders of files, and stdin ("-").
func parseFiles[D any](a *app, c *cobra.Command, paths []string, parse func(name string, data []byte) ([]D, error)) ([]fileOf[D], error) {
	if len(paths) == 0 {
		return nil, exit.Misuse(c, "no file is named; - stands for stdin")
	}
	var read []fileOf[D]
	add := func(name string, data []byte) {
		all, err := parse(name, data)
		read = append(read, fileOf[D]{name, all, err})
	}
	for _, path := range paths {
		if path == "-" {
			data, err := io.ReadAll(io.LimitReader(a.In, maxJobFile))
			if err != nil {
				return nil, fmt.Errorf("stdin: %w", err)
			}
			add("stdin", data)
			continue
		}
		files, err := jobFiles(path)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			data, err := readJobFile(name)
			if err != nil {
				return nil, err
			}
			add(name, data)
		}
	}
	return read, nil
}

func readJobFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fileFault(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJobFile))
	if err != nil {
		return nil, fileFault(err)
	}
	return data, nil
}

// fileFault gives a file that is not there its exit code.
func fileFault(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return &exit.Fault{Code: exit.NotFound, Err: err}
	}
	return err
}

// jobFiles is path itself, or the job files in the folder that it is.
func jobFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileFault(err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(e.Name()))) && !e.IsDir() {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf("%s: no .yaml, .yml or .json file in this folder", path)}
	}
	return files, nil
}

// readFiles is parseFiles, and an error if anything is wrong with any file or two of them define the same.
func readFiles[D any](a *app, c *cobra.Command, paths []string, parse func(name string, data []byte) ([]D, error), what, next string, called func(*D) string) ([]fileOf[D], error) {
	read, err := parseFiles(a, c, paths, parse)
	if err != nil {
		return nil, err
	}
	var errs []error
	from := map[string]string{}
	for _, f := range read {
		errs = append(errs, f.err)
		for i := range f.all {
			name := called(&f.all[i])
			if first, twice := from[name]; twice {
				errs = append(errs, fmt.Errorf("%s %q is defined by %s and by %s", what, name, first, f.name))
			}
			from[name] = f.name
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &exit.Fault{Code: exit.Usage, Err: fmt.Errorf("nothing was stored\n%w", err), Hint: next}
	}
	return read, nil
}

func (a *app) readJobs(c *cobra.Command, paths []string) ([]fileOf[task.Job], error) {
	return readFiles(a, c, paths, jobfile.Parse, "job", exit.Hint("`millrace job schema` prints what a job file may hold"), func(j *task.Job) string { return j.Name })
}

func (a *app) jobValidate() *cobra.Command {
	var o typed.Output
	c := &cobra.Command{
		Use: "validate FILE...", Aliases: []string{"check", "lint"},
		Short: "Check job files, without a server",
		Args:  typed.Takes(1, -1, "file"),
	}
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		read, err := parseFiles(a, c, args, jobfile.Parse)
		if err != nil {
			return err
		}
		reports := []fileReport{}
		wrong := 0
		for _, f := range read {
			r := reportOf(f)
			wrong += len(r.Problems)
			reports = append(reports, r)
		}
		if o.JSON() {
			err = a.WriteJSON(reports)
		} else {
			err = a.printReports(reports)
		}
		switch {
		case err != nil:
			return err
		case wrong > 0 && o.JSON():
			return exit.With(exit.Usage)
		case wrong > 0:
			return &exit.Fault{Code: exit.Usage, Err: fmt.Errorf("%s in %s", told.Plural(wrong, "problem"), told.Plural(len(read), "file")), Hint: exit.Hint("`millrace job schema` prints what a job file may hold")}
		}
		return nil
	}
	return c
}

// fileReport is what was found in a job file.
type fileReport struct {
	File     string        `json:"file"`
	Jobs     []string      `json:"jobs"`
	Problems []fileProblem `json:"problems"`
}

type fileProblem struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

func reportOf(f fileOf[task.Job]) fileReport {
	r := fileReport{File: f.name, Jobs: []string{}, Problems: []fileProblem{}}
	for _, j := range f.all {
		r.Jobs = append(r.Jobs, j.Name)
	}
	var problems jobfile.Errors
	switch {
	case errors.As(f.err, &problems):
		for _, p := range problems {
			r.Problems = append(r.Problems, fileProblem{p.Line, p.Column, p.Path, p.Message})
		}
	case f.err != nil:
		r.Problems = append(r.Problems, fileProblem{Message: f.err.Error()})
	}
	return r
}

// printReports lists the good files on stdout and what is wrong on stderr.
func (a *app) printReports(reports []fileReport) error {
	for _, r := range reports {
		if len(r.Problems) == 0 {
			if _, err := fmt.Fprintf(a.Out, "%s: good (%s: %s)\n", r.File, told.Plural(len(r.Jobs), "job"), strings.Join(r.Jobs, ", ")); err != nil {
				return err
			}
		}
		for _, p := range r.Problems {
			fmt.Fprintln(a.Errs, jobfile.Problem{File: r.File, Line: p.Line, Column: p.Column, Message: p.Message})
		}
	}
	return nil
}
