package verb

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet/request"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/service/answers"
)

// Each entry that has a command has all that the command needs: a noun, help, and a flag for each field of
// the request that the command line can say.
func TestCommands(t *testing.T) {
	t.Parallel()
	app := connect.New(strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, request.NewClock(time.Now))
	for _, e := range answers.Endpoints() {
		if e.Command == nil {
			continue
		}
		path, takes := split(e.Command.Use)
		if len(path) < 2 || takes == "" || nouns[path[0]].field == "" || e.Command.Short == "" {
			t.Errorf("%s: %q names no noun and what it takes, or has no help", e.Verb, e.Command.Use)
			continue
		}
		c := commandOf(app, &e, path, takes, nil)
		if c.Flags().Lookup("dry-run") != nil && e.Command.Many == nil && e.Command.Asks == "" {
			t.Errorf("%s says with --dry-run what it would do, and does not ask before it does it", e.Verb)
		}
		if strings.Contains(takes, "FILTERS") != (e.Command.Many != nil) {
			t.Errorf("%s: %q, and filters choose tasks: %t", e.Verb, e.Command.Use, e.Command.Many != nil)
		}
	}
}

// Commands go below the nouns that are there, and nowhere else.
func TestAddsToNounsThatAreThere(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "millrace"}
	root.AddCommand(settings.Noun(&cobra.Command{Use: "queue"}))
	Add(connect.New(strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, request.NewClock(time.Now)), root, nil)
	if found, _, err := root.Find([]string{"queue", "pause"}); err != nil || found.Name() != "pause" || len(root.Commands()) != 1 {
		t.Errorf("found %v, %v; below the root are %d commands", found, err, len(root.Commands()))
	}
}

func TestLabelChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string // of the error
	}{
		{[]string{"zone=eu", "gpu-"}, ""},
		{[]string{"zone"}, "or NAME- to remove it"},
		{[]string{"zone=eu", "zone-"}, "label zone is there twice"},
	} {
		got, err := labelChanges(c.args)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		case c.want == "" && (err != nil || *got["zone"] != "eu" || got["gpu"] != nil || len(got) != 2):
			t.Errorf("%v: %v, %v", c.args, got, err)
		}
	}
}
