package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/files"
	"millrace/files/tree"
	"millrace/jet"
)

func (a *app) filesCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "files", Aliases: []string{"file", "bundle", "bundles"},
		Short: "Files: folders in versions, for tasks to find around them",
		Long: `Files: folders in versions, for tasks to find around them.

A version is all that is in a folder, named by its digest, and never changes. A
name points to the latest one. NAME, NAME@DIGEST and DIGEST name a version; eight
characters of a digest are enough. Only contents that the other side lacks travel.`,
		Example: `  millrace files push ./app --name app
  millrace run --files app --follow -- ./main.sh
  millrace files diff app@1f2e3d4c app
  millrace files pull app ./copy`,
	})
	c.AddCommand(a.filesPush(), a.filesList(), a.filesShow(), a.filesDiff(), a.filesPull(), a.filesRemove(), a.filesVerify(), a.filesSweep())
	return c
}

func (a *app) filesPush() *cobra.Command {
	var o output
	var name string
	var exclude []string
	c := &cobra.Command{
		Use: "push DIR", Aliases: []string{"put", "upload"},
		Short: "Store a folder as a version, and print its digest",
		Long: `Stores a folder as a version of a bundle and prints its digest. What stands in
.millraceignore, in the form of a .gitignore, is left out, and so is what --exclude names. Links
that lead out of the folder are refused; devices, sockets and pipes are left out.`,
		Args: takes(1, 1, "folder"), DisableFlagsInUseLine: true,
	}
	c.Flags().StringVarP(&name, "name", "n", "", "`name` that points to this version from now on")
	c.Flags().StringArrayVarP(&exclude, "exclude", "x", nil, "leave out what matches this `pattern` (repeat it)")
	o.flags(c)
	c.RunE = a.online(func(ctx context.Context, cl *client.Client, args []string) error {
		p, err := a.push(c, cl, client.FilesPush{Dir: args[0], Name: name, Exclude: exclude})
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(p)
		}
		if _, err := fmt.Fprintln(a.out, p.Digest); err != nil {
			return err
		}
		a.note("%s, %s; %s sent", plural(p.Files, "file"), byteCount(p.Bytes), byteCount(p.Sent))
		return nil
	})
	return c
}

// push pushes a folder, with a line of progress and the notes that there are.
func (a *app) push(c *cobra.Command, cl *client.Client, p client.FilesPush) (client.FilesPushed, error) {
	moving := a.moving("sent")
	p.Each = moving.tell
	done, err := cl.PushFiles(c.Context(), p)
	moving.stop()
	for _, n := range done.Notes {
		a.note("%s", printable(n))
	}
	return done, err
}

func (a *app) filesList() *cobra.Command {
	var o output
	var names bool
	c := &cobra.Command{
		Use: "ls [NAME]", Aliases: []string{"list"}, Short: "List the names, or the versions of one",
		Args: takes(0, 1, "name"), ValidArgsFunction: a.completeFiles,
	}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names, or digests")
	o.flags(c)
	c.RunE = a.brief(func(ctx context.Context, cl *client.Client, args []string) error {
		all := []jet.NamedVersion{}
		if len(args) == 1 {
			versions, err := cl.Store().NameHistory(ctx, args[0])
			if err != nil {
				return err
			}
			all = append(all, versions...)
		} else {
			known, err := cl.Store().BundleNames(ctx)
			if err != nil {
				return err
			}
			for _, name := range known {
				n, err := cl.Store().Named(ctx, name)
				if err != nil {
					return err
				}
				all = append(all, n)
			}
		}
		switch {
		case o.json():
			return a.writeJSON(all)
		case names:
			for _, n := range all {
				text := n.Name
				if len(args) == 1 {
					text = string(n.Digest)
				}
				fmt.Fprintln(a.out, text)
			}
			return nil
		}
		t := table{header: []string{"NAME", "DIGEST", "FILES", "SIZE", "PUSHED", "BY"}, spare: []string{"BY", "FILES"}}
		for _, n := range all {
			t.add(plain(n.Name), plain(n.Digest.Short()), plain(fmt.Sprint(n.Files)), plain(byteCount(n.Bytes)), plain(age(n.At, a.now())), plain(printable(n.By)))
		}
		if len(args) == 0 {
			t.foot = []string{plural(len(all), "name")}
		}
		return a.print(t)
	})
	return c
}

// withVersion makes the RunE of a command about what is in a version.
func (a *app) withVersion(do func(context.Context, *client.Client, files.Ref, tree.Version, *files.Manifest) error) func(*cobra.Command, []string) error {
	return a.online(func(ctx context.Context, cl *client.Client, args []string) error {
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

func (a *app) filesShow() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "show VERSION", Aliases: []string{"view", "info"}, Short: "Show what is in a version",
		Args: takes(1, 1, "version"), ValidArgsFunction: a.completeFiles,
	}
	o.flags(c)
	c.RunE = a.withVersion(func(ctx context.Context, cl *client.Client, ref files.Ref, v tree.Version, m *files.Manifest) error {
		if o.json() {
			return a.writeJSON(struct {
				Digest  files.Digest  `json:"digest"`
				Bytes   int64         `json:"bytes"`
				Entries []files.Entry `json:"entries"`
			}{v.Digest, v.Bytes, m.Entries})
		}
		t := entryTable(m)
		t.title = ref.String()
		return a.print(t)
	})
	return c
}

func entryTable(m *files.Manifest) table {
	t := table{header: []string{"KIND", "SIZE", "PATH"}, foot: []string{plural(len(m.Entries), "file") + ", " + byteCount(m.Size())}}
	for i := range m.Entries {
		e := &m.Entries[i]
		switch {
		case e.Dir:
			t.add(plain("empty dir"), plain(""), plain(e.Path))
		case e.Link != "":
			t.add(plain("link"), plain(""), plain(e.Path+" -> "+e.Link))
		case e.Exec:
			t.add(plain("program"), plain(byteCount(e.Size)), plain(e.Path))
		default:
			t.add(plain("file"), plain(byteCount(e.Size)), plain(e.Path))
		}
	}
	return t
}

func (a *app) filesDiff() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "diff OLD NEW", Short: "Tell what is different in a version",
		Args: takes(2, 2, "version"), ValidArgsFunction: a.completeFiles,
	}
	o.flags(c)
	c.RunE = a.online(func(ctx context.Context, cl *client.Client, args []string) error {
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
		if o.json() {
			if changes == nil {
				changes = []files.Change{}
			}
			return a.writeJSON(changes)
		}
		t := table{header: []string{"CHANGE", "BEFORE", "AFTER", "NEW", "PATH"}}
		var fresh int64
		for _, d := range changes {
			fresh += d.New
			t.add(plain(d.Kind), plain(byteCount(d.Before)), plain(byteCount(d.After)), plain(byteCount(d.New)), plain(d.Path))
		}
		t.foot = []string{plural(len(changes), "change") + ", " + byteCount(fresh) + " that the old version does not have"}
		return a.print(t)
	})
	return c
}

func (a *app) filesPull() *cobra.Command {
	var into bool
	c := &cobra.Command{
		Use: "pull VERSION DIR", Aliases: []string{"get", "download"}, Short: "Write a version to a folder",
		Long: `Writes a version to a folder that is empty or not there yet. With --into the folder may hold other
things: files of the version replace those of the same name, chunk by chunk where
they differ, and others are left alone.`,
		Args: takes(2, 2, "version or folder"), ValidArgsFunction: a.completeFiles,
	}
	c.Flags().BoolVar(&into, "into", false, "the folder may hold other things")
	c.RunE = func(c *cobra.Command, args []string) error {
		if entries, err := os.ReadDir(args[1]); err == nil && len(entries) > 0 && !into {
			return &fault{code: exitRefused, err: fmt.Errorf("%s is not empty", args[1]), hint: hint("--into writes to it nevertheless")}
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		ref, v, err := cl.FilesVersion(c.Context(), args[0])
		if err != nil {
			return err
		}
		return a.pull(c, cl, ref.String(), v.Digest, args[1])
	}
	return c
}

func (a *app) pull(c *cobra.Command, cl *client.Client, what string, d files.Digest, dir string) error {
	v, err := cl.Store().Version(c.Context(), d)
	if err != nil {
		return err
	}
	m, err := cl.FilesManifest(c.Context(), v)
	if err != nil {
		return err
	}
	moving := a.moving("written")
	done, err := cl.PullFiles(c.Context(), m, dir, moving.tell)
	moving.stop()
	if err != nil {
		return err
	}
	a.note("%s is in %s: %s, %s; %s fetched", what, dir, plural(len(m.Entries), "file"), byteCount(m.Size()), byteCount(done.Bytes))
	return nil
}

func (a *app) filesRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"del", "delete", "remove"}, Short: "Remove names; versions that nothing needs go with the next gc",
		Args: takes(1, -1, "name"), ValidArgsFunction: a.completeFiles,
		RunE: a.online(func(ctx context.Context, cl *client.Client, args []string) error {
			for _, name := range args {
				asking, cancel := a.asking(ctx)
				err := cl.RemoveBundle(asking, name)
				cancel()
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(a.out, "name %s removed\n", name); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func (a *app) filesVerify() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "verify VERSION", Aliases: []string{"check"}, Short: "Read all of a version from the store and compare it with its digests",
		Args: takes(1, 1, "version"), ValidArgsFunction: a.completeFiles,
	}
	o.flags(c)
	c.RunE = a.withVersion(func(ctx context.Context, cl *client.Client, ref files.Ref, v tree.Version, m *files.Manifest) error {
		problems, read, err := cl.VerifyFiles(ctx, m)
		if err != nil {
			return err
		}
		if problems == nil {
			problems = []client.FilesProblem{}
		}
		switch {
		case o.json():
			err = a.writeJSON(problems)
		case len(problems) == 0:
			_, err = fmt.Fprintf(a.out, "%s is whole: %s, %s\n", ref, plural(len(m.Entries), "file"), byteCount(read))
		default:
			for _, p := range problems {
				fmt.Fprintf(a.out, "%s\n", printable(p.Error))
			}
		}
		if err == nil && len(problems) > 0 {
			return &fault{code: exitError, err: fmt.Errorf("%s is damaged: %s cannot be read", ref, plural(len(problems), "file")), hint: hint("`millrace files push` of the same folder stores what is missing; what is wrong in the store has to be removed there first")}
		}
		return err
	})
	return c
}

func (a *app) filesSweep() *cobra.Command {
	var o output
	var s client.FilesSweep
	older, artifacts := spanFlag{}, spanFlag{}
	c := &cobra.Command{
		Use: "gc", Aliases: []string{"prune", "sweep"}, Short: "Remove versions and contents that nothing needs",
		Long: `Removes versions and contents that no name, no job, no task that has not ended and no
artifact needs. It may run beside pushes, submissions and tasks. It needs a millrace server,
which knows which tasks have not ended.`,
		Args: takes(0, 0, ""),
	}
	c.Flags().BoolVar(&s.DryRun, "dry-run", false, "only tell what would be removed")
	c.Flags().Var(&older, "older-than", "spare what was stored later than that ago (default 1h, which is the least)")
	c.Flags().Var(&artifacts, "artifacts", "how long artifacts are kept (default 30 days)")
	c.Flags().IntVar(&s.Versions, "keep", 0, "`number` of versions of each name to keep, the latest (default all that it remembers, up to 64)")
	o.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if s.Versions < 0 {
			return misuse(c, "--keep is %d, want 1 or more", s.Versions)
		}
		s.OlderThan, s.Artifacts = older.d, artifacts.d
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		done, err := cl.SweepFiles(c.Context(), s)
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(done)
		}
		verb := "removed"
		if s.DryRun {
			verb = "to be removed"
		}
		_, err = fmt.Fprintf(a.out, "%s, %s and %s (%s) %s; %s kept\n", plural(len(done.Versions), "version"), plural(done.Artifacts, "set")+" of artifacts",
			plural(done.Chunks, "chunk"), byteCount(done.Bytes), verb, plural(done.Kept, "version"))
		return err
	}
	return c
}

func (a *app) completeFiles(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		names, _ := cl.Store().BundleNames(ctx)
		return names
	})
}

// moving shows how much of something large was moved, if somebody looks.
type moving struct {
	w    io.Writer
	verb string
	last int64
}

func (a *app) moving(verb string) *moving {
	m := &moving{verb: verb}
	if terminal(a.errs) {
		m.w = unfiltered(a.errs)
	}
	return m
}

// tell is called by one at a time.
func (m *moving) tell(done, of int64) {
	if m.w == nil || done-m.last < 4<<20 && done < of {
		return
	}
	m.last = done
	fmt.Fprintf(m.w, "\r%s of %s %s ", byteCount(done), byteCount(of), m.verb)
}

func (m *moving) stop() {
	if m.w != nil && m.last > 0 {
		fmt.Fprintf(m.w, "\r%s\r", strings.Repeat(" ", 60))
	}
}
