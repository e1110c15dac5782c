package job

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/value"
)

// Files is millrace files.
func (a *Commands) Files() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "files", Aliases: []string{"file", "bundle", "bundles"},
		Short: "Files: folders in versions, which tasks find in their working directory",
		Long: `Files: folders in versions, which tasks find in their working directory.

A version is the content of a folder. Its digest names it, and it never changes. A
name points to the latest version. NAME, NAME@DIGEST and DIGEST name a version; eight
characters of a digest are enough. Only contents that the other side lacks are sent.`,
		Example: `  millrace files push ./app --name app
  millrace run --files app --follow -- ./main.sh
  millrace files diff app@1f2e3d4c app
  millrace files pull app ./copy`,
	})
	c.AddCommand(a.filesPush(), a.filesList(), a.filesShow(), a.filesDiff(), a.filesPull(), a.filesVerify(), a.filesSweep())
	return c
}

func (a *Commands) filesPush() *cobra.Command {
	var o settings.Output
	var name string
	var exclude []string
	c := &cobra.Command{
		Use: "push DIR", Aliases: []string{"put", "upload"},
		Short: "Store a folder as a version, and print its digest",
		Long: `Stores a folder as a version of a bundle and prints its digest. It leaves out what
.millraceignore names, in the form of a .gitignore, and what --exclude names, as well as devices,
sockets and pipes. It refuses links that lead out of the folder.`,
		Args: settings.Takes(1, 1, "folder"), DisableFlagsInUseLine: true,
	}
	c.Flags().StringVarP(&name, "name", "n", "", "`name` that points to this version from now on")
	c.Flags().StringArrayVarP(&exclude, "exclude", "x", nil, "leave out what matches this `pattern` (repeat it)")
	o.Flags(c)
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		if err := connect.Folder(c, args[0]); err != nil {
			return err
		}
		p, err := a.PushFiles(c, cl, client.FilesPush{Dir: args[0], Name: name, Exclude: exclude})
		if err != nil {
			return err
		}
		if o.JSON() {
			return a.WriteJSON(p)
		}
		if _, err := fmt.Fprintln(a.Out, p.Digest); err != nil {
			return err
		}
		a.Note("%s, %s; %s sent", wording.Plural(p.Files, "file"), wording.ByteCount(p.Bytes), wording.ByteCount(p.Sent))
		return nil
	})
	return c
}

// versions are those of a name, or the latest of each name if it is "".
type versions struct {
	name string
	all  []definitions.NamedVersion
}

func (a *Commands) filesList() *cobra.Command {
	return (&connect.Reading[versions]{
		Use: "ls [NAME]", Short: "List the names, or the versions of one",
		Of: "name", Maybe: true, Complete: a.CompleteFiles,
		Then: connect.Then{Folds: []view.Kind{view.Definitions}, Lacks: []string{"whether the files are still stored"}},
		Read: func(ctx context.Context, cl *client.Client, s *connect.Sight, name string) (versions, error) {
			all, err := bundlesIn(ctx, cl, s, name)
			return versions{name, append([]definitions.NamedVersion{}, all...)}, err
		},
		Names: func(is versions, _ *connect.Sight) (names []string) {
			for i := range is.all {
				if is.name != "" {
					names = append(names, string(is.all[i].Digest))
				} else {
					names = append(names, is.all[i].Name)
				}
			}
			return names
		},
		Called: "names, or digests",
		Table: func(is versions, s *connect.Sight) term.Table {
			type row = *definitions.NamedVersion
			t := term.List(is.all,
				term.Text("NAME", 0, func(n row) string { return n.Name }),
				term.Text("DIGEST", 0, func(n row) string { return n.Digest.Short() }),
				term.Text("FILES", 2, func(n row) string { return fmt.Sprint(n.Files) }),
				term.Text("SIZE", 0, func(n row) string { return wording.ByteCount(n.Bytes) }),
				term.Text("PUSHED", 0, func(n row) string { return wording.Age(n.At, s.Now()) }),
				term.Text("BY", 1, func(n row) string { return term.Printable(n.By) }))
			if is.name == "" {
				t.Foot = []string{wording.Plural(len(is.all), "name")}
			}
			return t
		},
		JSON: func(is versions, _ *connect.Sight) any { return is.all },
	}).Command(a.App)
}

// bundlesIn is [client.Client.Bundles] as of a sight.
func bundlesIn(ctx context.Context, cl *client.Client, s *connect.Sight, name string) ([]definitions.NamedVersion, error) {
	switch {
	case s.Past == nil:
		return cl.Bundles(ctx, name)
	case name == "":
		return client.BundlesOf(ctx, s.View)
	}
	facts, err := view.All(ctx, s.View, view.Definition(task.Named(task.DefBundle, name)))
	if err != nil {
		return nil, err
	}
	return definitions.VersionsIn(name, facts)
}

// withVersion makes the RunE of a command about the files of a version.
func (a *Commands) withVersion(do func(context.Context, *client.Client, files.Ref, files.Version, *files.Manifest) error) func(*cobra.Command, []string) error {
	return a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		ref, v, err := cl.FilesVersion(ctx, args[0])
		if err != nil {
			return err
		}
		m, err := cl.FilesManifest(ctx, v)
		if err != nil {
			return err
		}
		return do(ctx, cl, ref, v, m)
	})
}

func (a *Commands) filesShow() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "show VERSION", Aliases: []string{"view", "info"}, Short: "Show what is in a version",
		Args: settings.Takes(1, 1, "version"), ValidArgsFunction: a.CompleteFiles,
	}
	o.Flags(c)
	c.RunE = a.withVersion(func(ctx context.Context, cl *client.Client, ref files.Ref, v files.Version, m *files.Manifest) error {
		if o.JSON() {
			return a.WriteJSON(struct {
				Digest  files.Digest  `json:"digest"`
				Bytes   int64         `json:"bytes"`
				Entries []files.Entry `json:"entries"`
			}{v.Digest, v.Bytes, m.Entries})
		}
		t := entryTable(m)
		t.Title = ref.String()
		return a.Print(t)
	})
	return c
}

func entryTable(m *files.Manifest) term.Table {
	t := term.Table{Header: []string{"KIND", "SIZE", "PATH"}, Foot: []string{wording.Plural(len(m.Entries), "file") + ", " + wording.ByteCount(m.Size())}}
	for i := range m.Entries {
		e := &m.Entries[i]
		switch {
		case e.Dir:
			t.Add(term.Plain("empty dir"), term.Plain(""), term.Plain(e.Path))
		case e.Link != "":
			t.Add(term.Plain("link"), term.Plain(""), term.Plain(e.Path+" -> "+e.Link))
		case e.Exec:
			t.Add(term.Plain("program"), term.Plain(wording.ByteCount(e.Size)), term.Plain(e.Path))
		default:
			t.Add(term.Plain("file"), term.Plain(wording.ByteCount(e.Size)), term.Plain(e.Path))
		}
	}
	return t
}

func (a *Commands) filesDiff() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "diff OLD NEW", Short: "Tell how two versions differ",
		Args: settings.Takes(2, 2, "version"), ValidArgsFunction: a.CompleteFiles,
	}
	o.Flags(c)
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		var both [2]*files.Manifest
		for i, arg := range args {
			_, v, err := cl.FilesVersion(ctx, arg)
			if err != nil {
				return err
			}
			if both[i], err = cl.FilesManifest(ctx, v); err != nil {
				return err
			}
		}
		changes := files.Diff(both[0], both[1])
		if o.JSON() {
			if changes == nil {
				changes = []files.Change{}
			}
			return a.WriteJSON(changes)
		}
		t := term.Table{Header: []string{"CHANGE", "BEFORE", "AFTER", "NEW", "PATH"}}
		var fresh int64
		for _, d := range changes {
			fresh += d.New
			t.Add(term.Plain(d.Kind), term.Plain(wording.ByteCount(d.Before)), term.Plain(wording.ByteCount(d.After)), term.Plain(wording.ByteCount(d.New)), term.Plain(d.Path))
		}
		t.Foot = []string{wording.Plural(len(changes), "change") + ", " + wording.ByteCount(fresh) + " that the old version does not have"}
		return a.Print(t)
	})
	return c
}

func (a *Commands) filesPull() *cobra.Command {
	var into bool
	c := &cobra.Command{
		Use: "pull VERSION DIR", Aliases: []string{"get", "download"}, Short: "Write a version to a folder",
		Long: `Writes a version to an empty or new folder. With --into the folder may hold other
files: files of the version replace those of the same name, chunk by chunk where
they differ, and other files stay.`,
		Args: settings.Takes(2, 2, "version or folder"), ValidArgsFunction: a.CompleteFiles,
	}
	c.Flags().BoolVar(&into, "into", false, "the folder may hold other files")
	c.RunE = func(c *cobra.Command, args []string) error {
		if entries, err := os.ReadDir(args[1]); err == nil && len(entries) > 0 && !into {
			return &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("%s is not empty", args[1]), Hint: term.Hint("--into writes to it nevertheless")}
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		ref, v, err := cl.FilesVersion(c.Context(), args[0])
		if err != nil {
			return err
		}
		return a.PullFiles(c, cl, ref.String(), v.Digest, args[1])
	}
	return c
}

func (a *Commands) filesVerify() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "verify VERSION", Aliases: []string{"check"}, Short: "Read all of a version from the store and compare it with its digests",
		Args: settings.Takes(1, 1, "version"), ValidArgsFunction: a.CompleteFiles,
	}
	o.Flags(c)
	c.RunE = a.withVersion(func(ctx context.Context, cl *client.Client, ref files.Ref, v files.Version, m *files.Manifest) error {
		problems, read, err := cl.VerifyFiles(ctx, m)
		if err != nil {
			return err
		}
		if problems == nil {
			problems = []client.FilesProblem{}
		}
		switch {
		case o.JSON():
			err = a.WriteJSON(problems)
		case len(problems) == 0:
			_, err = fmt.Fprintf(a.Out, "%s is whole: %s, %s\n", ref, wording.Plural(len(m.Entries), "file"), wording.ByteCount(read))
		default:
			for _, p := range problems {
				fmt.Fprintf(a.Out, "%s\n", term.Printable(p.Error))
			}
		}
		if err == nil && len(problems) > 0 {
			return &term.Fault{Code: term.ExitError, Err: fmt.Errorf("%s is damaged: %s cannot be read", ref, wording.Plural(len(problems), "file")), Hint: term.Hint("`millrace files push` of the same folder stores what is missing; what is wrong in the store has to be removed there first")}
		}
		return err
	})
	return c
}

func (a *Commands) filesSweep() *cobra.Command {
	var o settings.Output
	var s client.FilesSweep
	older, artifacts := settings.Span{Least: time.Second}, settings.Span{Least: time.Second}
	c := &cobra.Command{
		Use: "gc", Aliases: []string{"prune", "sweep"}, Short: "Remove versions and contents that are not needed",
		Long: `Removes versions and contents that no name, no job, no task that has not ended and no
artifact needs. It may run beside pushes, submissions and tasks. It needs a millrace server
to learn which tasks have not ended.`,
		Args: settings.Takes(0, 0, ""),
	}
	c.Flags().BoolVar(&s.DryRun, "dry-run", false, "only tell what would be removed")
	c.Flags().Var(&older, "older-than", "spare what was stored within this time (default 1h, which is the least)")
	c.Flags().Var(&artifacts, "artifacts", "how long artifacts are kept (default 30 days)")
	settings.Count(c.Flags(), &s.Versions, "keep", "", "`number` of latest versions of each name to keep (default all that the name remembers, up to 64)")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("keep") && s.Versions < 1 {
			return term.Misuse(c, "--keep is %d, want 1 or more", s.Versions)
		}
		s.OlderThan, s.Artifacts = value.Duration(older.D), value.Duration(artifacts.D)
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		done, err := cl.SweepFiles(c.Context(), s, cl.List)
		if err != nil {
			return err
		}
		if o.JSON() {
			return a.WriteJSON(done)
		}
		verb := "removed"
		if s.DryRun {
			verb = "to be removed"
		}
		_, err = fmt.Fprintf(a.Out, "%s, %s and %s (%s) %s; %s kept\n", wording.Plural(len(done.Versions), "version"), wording.Plural(done.Artifacts, "set")+" of artifacts",
			wording.Plural(done.Chunks, "chunk"), wording.ByteCount(done.Bytes), verb, wording.Plural(done.Kept, "version"))
		return err
	}
	return c
}
