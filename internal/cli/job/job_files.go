package job

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/task/condition"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/schedule"
)

func (a *Commands) readJobs(c *cobra.Command, paths []string) ([]settings.FileOf[job.Job], error) {
	return settings.ReadFiles(a.In, c, paths, jobfile.ParseWith(condition.Valid, nil), "job", term.Hint("`millrace job schema` prints what a job file may hold"), func(j *job.Job) string { return j.Name })
}

func (a *Commands) jobValidate() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "validate FILE...", Aliases: []string{"check", "lint"},
		Short: "Check job files, without a server",
		Args:  settings.Takes(1, -1, "file"),
	}
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		read, err := settings.ParseFiles(a.In, c, args, jobfile.ParseWith(condition.Valid, func(d schedule.Definition) error {
			_, _, err := d.Over(nil, a.Now())
			return err
		}))
		if err != nil {
			return err
		}
		reports := []fileReport{}
		wrong := 0
		for _, f := range read {
			r := fileReport{f.Name, jobfile.ReportOf(f.All, f.Err)}
			wrong += len(r.Problems)
			reports = append(reports, r)
		}
		if o.JSON() {
			err = a.WriteJSON(reports)
		} else {
			err = a.printReports(reports)
			for _, f := range read {
				for i := range f.All {
					a.remarks(&f.All[i])
				}
			}
		}
		switch {
		case err != nil:
			return err
		case wrong > 0 && o.JSON():
			return term.ExitWith(term.ExitUsage)
		case wrong > 0:
			return &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("%s in %s", wording.Plural(wrong, "problem"), wording.Plural(len(read), "file")), Hint: term.Hint("`millrace job schema` prints what a job file may hold")}
		}
		return nil
	}
	return c
}

// fileReport is the result of checking a job file.
type fileReport struct {
	File string `json:"file"`
	jobfile.Report
}

// printReports lists the good files on stdout and the problems on stderr.
func (a *Commands) printReports(reports []fileReport) error {
	for _, r := range reports {
		if len(r.Problems) == 0 {
			if _, err := fmt.Fprintf(a.Out, "%s: good (%s: %s)\n", r.File, wording.Plural(len(r.Jobs), "job"), strings.Join(r.Jobs, ", ")); err != nil {
				return err
			}
		}
		for _, p := range r.Problems {
			fmt.Fprintln(a.Errs, term.Printable(jobfile.Problem{File: r.File, Line: p.Line, Column: p.Column, Message: p.Message}.Error()))
		}
	}
	return nil
}
