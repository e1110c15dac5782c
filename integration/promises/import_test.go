package promises

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
)

// An export goes into a NATS server that holds no Millrace, with its sequences and times; one that does
// refuses it.
func TestImportIntoNATS(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 6*time.Second)
	p.MayRepair("an imported log has no timers, and the sweep sets them")
	packed, err := os.Open("../../events/testdata/former/4420798c.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpack, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	export, err := io.ReadAll(unpack)
	if err != nil {
		t.Fatal(err)
	}
	p.Write("log.jsonl", string(export))
	p.NATS()
	if r := p.Try("events", "import", "log.jsonl"); r.Code != 0 || !strings.Contains(r.Errs, "holds the log up to #288; `millrace server` on it goes on from there") ||
		!strings.Contains(r.Errs, "paused schedules (`millrace schedule resume`): every3, hello, nightly") {
		t.Fatalf("%+v", r)
	}
	if r := p.Try("events", "import", "log.jsonl"); r.Code != 5 || !strings.Contains(r.Errs, "there is a log on this NATS server already") {
		t.Errorf("once more: %+v", r)
	}
	p.Start("server", "--data", "model")
	p.Until("a server answers", func() bool { return p.Try("task", "ls").Code == 0 })
	if said := p.Run("verify"); !strings.HasPrefix(said, "OK: ") {
		t.Error(said)
	}
	again := p.Run("events", "export", "--to", "288")
	if body := func(s string) string { _, lines, _ := strings.Cut(strings.TrimSpace(s), "\n"); return lines }; body(again) != body(string(export)) {
		t.Error("the exported log is another one")
	}
	// One is due since long ago, and is pending as soon as the sweep has seen it.
	if said := p.Run("task", "ls", "--state", "pending,scheduled", "--names"); len(strings.Fields(said)) != 3 {
		t.Errorf("what waits: %s", said)
	}
}
