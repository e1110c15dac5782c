package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"millrace/integration/harness"
)

// noPast names the commands without a flag --at for a moment of the past, with the reason. An entry
// for a noun holds for its verbs. Commands that are part of the entry of a verb change something.
var noPast = map[string]string{
	"notify test": acts, "task copy": acts, "task wait": acts,
	"dlq requeue": acts, "dlq rm": acts, "job apply": acts, "calendar apply": acts,
	"schedule add": acts, "schedule backfill": acts, "schedule run": acts, "run": acts,
	"queue limit": acts, "queue purge": acts, "token add": acts, "token rm": acts,
	"node wait":   acts,
	"cron import": acts, "monitor add": acts, "ping": acts, "files push": acts, "files gc": acts, "incident import": acts, "events import": acts, "ipc": acts,

	"data ls": beside, "data tail": beside, "data export": beside, "task data ls": beside, "task data tail": beside, "task data export": beside, "task artifacts": beside,
	"node ping": "measures the present", "upgrade check": "is about what runs now",

	"horizon":     "says what the log keeps at present",
	"events tail": log, "events show": log, "events export": log, "verify": log, "replay": log, "whatif": log,
	"incident export": log, "incident show": "reads a file", "incident open": "runs commands that have the flag",

	"files show": fixed, "files diff": fixed, "files verify": fixed, "files pull": fixed,
	"schedule next": "its --at is a schedule that fires once; schedule show has the next ticks as of a moment",

	"job validate": here, "job schema": here, "api openapi": here, "nats permissions": here, "config": here, "version": here, "mcp": "its tools take at", "exit-codes": here, "connection": here,
	"bench": here, "chaos": here, "demo": here, "dev": here, "server": here, "worker": here,
	"backup": beside, "restore": here, "archive": "reads segments whole; --archive of commands with --at answers about a moment",
}

// The reasons.
const (
	acts   = "changes something, or waits for it"
	beside = "reads what lies beside the log, which does not record it"
	log    = "reads the log itself, and is told where to begin and to end"
	fixed  = "a version of files never changes; files ls has the versions as of a moment"
	here   = "reads nothing of the log"
)

// Each command that reads has --at, or a reason to have none.
func TestReadingCommandsKnowThePast(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	harness.Each(testRoot(), func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if entered(path) {
			return
		}
		if c.Hidden || c.HasParent() && c.Parent().Hidden || c.HasAvailableSubCommands() && noPast[path] == "" || path == "" {
			return
		}
		entry := path
		for entry != "" && noPast[entry] == "" {
			entry = entry[:max(0, strings.LastIndexByte(entry, ' '))]
		}
		said[entry] = true
		flag := c.Flags().Lookup("at")
		has := flag != nil && strings.HasPrefix(flag.Usage, "as it was at a `moment`")
		switch {
		case has && entry != "":
			t.Errorf("millrace %s has --at, and a reason to have none: %s", path, noPast[entry])
		case !has && entry == "":
			t.Errorf("millrace %s has no --at, and no reason for that", path)
		}
	})
	for _, path := range slices.Sorted(maps.Keys(noPast)) {
		if !said[path] {
			t.Errorf("there is no command millrace %s", path)
		}
	}
}
