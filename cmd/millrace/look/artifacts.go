package look

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/cmd/millrace/bundles"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/files"
	"millrace/task"
)

func (a *Commands) taskArtifacts() *cobra.Command {
	var o typed.Output
	var all bool
	var get, cat string
	c := &cobra.Command{
		Use: "artifacts ID", Aliases: []string{"artefacts"},
		Short: "List the artifacts of a task, or fetch them",
		Long: `Lists the artifacts of the current or last attempt of a task: the files that it left and
that "artifacts" names; with --all those of all attempts. --get writes them to a folder, --cat prints one.`,
		Example: `  millrace task artifacts ID
  millrace task artifacts ID --get ./results
  millrace task artifacts ID --cat report.csv`,
		Args: typed.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
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
		if len(left) == 0 || left[0].Digest == "" {
			return &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf("task %s has left no artifacts%s", id, refusedText(left)), Hint: exit.Hint("--all lists those of earlier attempts")}
		}
		d := files.Digest(left[0].Digest)
		if get != "" {
			return bundles.Of(a.App).Pull(c, cl, "what task "+string(id)+" has left", d, get)
		}
		return a.catArtifact(ctx, cl, d, cat)
	})
	return c
}

// artifactsOf returns the artifacts of the current attempt, or of all.
func (a *Commands) artifactsOf(ctx context.Context, cl *client.Client, id task.ID, all bool) ([]task.Left, error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	left, err := cl.Artifacts(asking, id)
	if err != nil || all {
		return left, err
	}
	t, err := cl.Task(asking, id)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		if l.Epoch == t.Epoch {
			return []task.Left{l}, nil
		}
	}
	return nil, nil
}

func refusedText(left []task.Left) string {
	if len(left) == 0 {
		return ""
	}
	return ": " + term.Printable(left[0].Refused)
}

// shownArtifacts are the artifacts of an attempt as they are printed.
type shownArtifacts struct {
	task.Left
	Entries []files.Entry `json:"entries"`
}

func (a *Commands) listArtifacts(ctx context.Context, cl *client.Client, left []task.Left, o *typed.Output) error {
	shown := []shownArtifacts{}
	for _, l := range left {
		s := shownArtifacts{Left: l, Entries: []files.Entry{}}
		if l.Digest != "" {
			v, err := cl.Store().Version(ctx, files.Digest(l.Digest))
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
	n := 0
	for _, s := range shown {
		if s.Refused != "" {
			t.Foot = append(t.Foot, fmt.Sprintf("attempt %d: %s", s.Attempt, term.Printable(s.Refused)))
		}
		n += len(s.Entries)
		for _, e := range s.Entries {
			path := e.Path
			if e.Link != "" {
				path += " -> " + e.Link
			}
			t.Add(term.Plain(fmt.Sprint(s.Attempt)), term.Plain(told.ByteCount(e.Size)), term.Plain(path))
		}
	}
	t.Foot = append(t.Foot, told.Plural(n, "file"))
	return a.Print(t)
}

func (a *Commands) catArtifact(ctx context.Context, cl *client.Client, d files.Digest, path string) error {
	v, err := cl.Store().Version(ctx, d)
	if err != nil {
		return err
	}
	m, err := cl.FilesManifest(ctx, v)
	if err != nil {
		return err
	}
	e := m.Find(path)
	if e == nil || !e.Regular() {
		return &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf("there is no file %q among the artifacts", path), Hint: exit.Hint("without --cat they are listed")}
	}
	return cl.FilesContent(ctx, e, a.Out)
}
