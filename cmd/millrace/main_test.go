package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/internal/cli/connect"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(testkit.Thrifty(m), map[string]func(){"millrace": func() {
		connect.Usual = nowhere // a developer's own server may listen at the usual address
		main()
	}})
}

// nowhere is an address at which nothing listens.
const nowhere = "nats://127.0.0.1:1"

// TestScripts runs the command as it is typed, against a real server where a
// script starts one.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			for name, folder := range map[string]string{
				"HOME": "home", "XDG_CONFIG_HOME": "home/config", "XDG_CACHE_HOME": "home/cache", "MILLRACE_DEV_DIR": "dev",
			} {
				e.Setenv(name, filepath.Join(e.WorkDir, folder))
			}
			e.Setenv("TZ", "UTC")
			e.Setenv("USUAL", nowhere)
			incident, err := filepath.Abs("../../examples/incidents/reconnected.mri")
			e.Setenv("INCIDENT", incident)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": harness.Exits, "server": startServer, "work": work, "forget": forget,
		},
	})
}

// startServer starts a NATS server: "server" names it in $NATS_URL, "server token
// SECRET" also wants that, "server dev" announces it as `millrace dev` does. It
// ends with the script.
func startServer(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs("data")
	cfg := embed.Config{Dir: dir}
	if len(args) > 1 {
		cfg.Auth.Token = args[1]
	}
	s, err := embed.Start(cfg)
	ts.Check(err)
	ts.Defer(s.Stop)
	nc, err := s.Connect()
	ts.Check(err)
	defer nc.Close()
	log, err := jet.Open(context.Background(), nc, streams.Layout{}) // as `millrace server` does
	ts.Check(err)
	log.Close()
	ts.Setenv("URL", s.URL())
	ts.Setenv("ADDRESS", s.Address())
	user, password, _ := s.Own()
	ts.Setenv("OWN_USER", user)
	ts.Setenv("OWN_PASSWORD", password)
	if len(args) == 0 || args[0] == "token" {
		ts.Setenv("NATS_URL", s.URL())
		return
	}
	// Announce reads the environment of its own process; this one is the script's.
	body, err := request.Server{URL: s.URL(), Role: connect.RoleDev, PID: os.Getpid(), Data: dir, Started: time.Now()}.Write(ts.Getenv("MILLRACE_DEV_DIR"))
	ts.Check(err)
	ts.Logf("announced in %s", body)
}
