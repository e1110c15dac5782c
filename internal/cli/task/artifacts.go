package task

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/files"
	"millrace/service/client"
	"millrace/task"
)

func (a *Commands) taskArtifacts() *cobra.Command {
	var o settings.Output
	var all bool
	var get, cat string
	c := &cobra.Command{
		Use: "artifacts ID", Aliases: []string{"artefacts"},
		Short: "List the artifacts of a task, or fetch them",
		Long: `Lists the artifacts of the current or last attempt of a task and of its steps: the files
that they left and that "artifacts" names; with --all those of all attempts. --get writes
them to a folder, those of a step to a folder below it; --cat prints one.`,
		Example: `  millrace task artifacts ID
  millrace task artifacts ID --get ./results
  millrace task artifacts ID --cat report.csv
  millrace task artifacts ID --cat extract/report.csv`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	c.Flags().BoolVar(&all, "all", false, "of all attempts")
	c.Flags().StringVar(&get, "get", "", "write them to this `folder`")
	c.Flags().StringVar(&cat, "cat", "", "print the file with this `path`")
	o.Flags(c)
	c.MarkFlagsMutuallyExclusive("all", "get", "cat")
	c.RunE = a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		left, err := a.artifactsOf(ctx, cl, id, all)
		if err != nil {
			return err
		}
		if get == "" && cat == "" {
			return a.listArtifacts(ctx, cl, left, &o)
		}
		stored := slices.DeleteFunc(slices.Clone(left), func(l client.StepArtifacts) bool { return l.Digest == "" })
		if len(stored) == 0 {
			return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("task %s has left no artifacts%s", id, refusedText(left)), Hint: term.Hint("--all lists those of earlier attempts")}
		}
		if cat != "" {
			return a.catArtifact(ctx, cl, stored, cat)
		}
		for _, l := range stored {
			if err := a.PullFiles(c, cl, "what task "+string(l.Task)+" has left", files.Digest(l.Digest), filepath.Join(get, filepath.FromSlash(l.Step))); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

// artifactsOf returns the artifacts of the current attempts of a task and of its steps, or of all
// attempts.
func (a *Commands) artifactsOf(ctx context.Context, cl *client.Client, id task.ID, all bool) ([]client.StepArtifacts, error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	left, err := cl.Artifacts(asking, id)
	if err != nil || all {
		return left, err
	}
	if len(left) == 0 { // there may be no such task
		_, err = cl.Task(asking, id)
	}
	return slices.DeleteFunc(left, func(l client.StepArtifacts) bool { return !l.Current }), err
}

func refusedText(left []client.StepArtifacts) string {
	if len(left) == 0 {
		return ""
	}
	return ": " + term.Printable(left[0].Refused)
}

// shownArtifacts are the artifacts of an attempt as they are printed.
type shownArtifacts struct {
	client.StepArtifacts
	Entries []files.Entry `json:"entries"`
}

func (a *Commands) listArtifacts(ctx context.Context, cl *client.Client, left []client.StepArtifacts, o *settings.Output) error {
	shown := []shownArtifacts{}
	for _, l := range left {
		s := shownArtifacts{StepArtifacts: l, Entries: []files.Entry{}}
		if l.Digest != "" {
			_, v, err := cl.FilesVersion(ctx, l.Digest)
			if err != nil {
				return err
			}
			m, err := cl.FilesManifest(ctx, v)
			if err != nil {
				return err
			}
			s.Entries = m.Entries
		}
		shown = append(shown, s)
	}
	if o.JSON() {
		return a.WriteJSON(shown)
	}
	t := term.Table{Header: []string{"ATTEMPT", "SIZE", "PATH"}}
	steps := slices.ContainsFunc(left, func(l client.StepArtifacts) bool { return l.Step != "" })
	if steps {
		t.Header = slices.Insert(t.Header, 0, "STEP")
	}
	n := 0
	for _, s := range shown {
		if s.Refused != "" {
			t.Foot = append(t.Foot, strings.TrimSpace(fmt.Sprintf("%s attempt %d: %s", s.Step, s.Attempt, term.Printable(s.Refused))))
		}
		n += len(s.Entries)
		for _, e := range s.Entries {
			path := e.Path
			if e.Link != "" {
				path += " -> " + e.Link
			}
			row := []term.Cell{term.Plain(fmt.Sprint(s.Attempt)), term.Plain(wording.ByteCount(e.Size)), term.Plain(path)}
			if steps {
				row = slices.Insert(row, 0, term.Plain(s.Step))
			}
			t.Add(row...)
		}
	}
	t.Foot = append(t.Foot, wording.Plural(n, "file"))
	return a.Print(t)
}

// catArtifact prints a file; that of a step has the step before its path.
func (a *Commands) catArtifact(ctx context.Context, cl *client.Client, left []client.StepArtifacts, path string) error {
	for _, l := range left {
		within, ok := path, true
		if l.Step != "" {
			within, ok = strings.CutPrefix(path, l.Step+"/")
		}
		if !ok {
			continue
		}
		_, v, err := cl.FilesVersion(ctx, l.Digest)
		if err != nil {
			return err
		}
		m, err := cl.FilesManifest(ctx, v)
		if err != nil {
			return err
		}
		if e := m.Find(within); e != nil && e.Regular() {
			return cl.FilesContent(ctx, e, a.Out)
		}
	}
	return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("there is no file %q among the artifacts", path), Hint: term.Hint("without --cat they are listed")}
}
