package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"millrace/events/logtest"
	"millrace/internal/testkit"
	"millrace/ipc"
)

// The files of an attempt that outlives its worker, and the messages between worker and shim: the
// next worker may be of another version than the shim.
func TestKeepCorpus(t *testing.T) {
	var note keepNote
	logtest.Fill(t, &note, logtest.Samples...)
	note.V = 0
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return append(b, '\n')
	}
	testkit.Test(t, testkit.Form{
		Dir: "testdata/corpus/note", Version: keepVersion, Today: map[string][]byte{"full.json": text(note)}, Unknown: testkit.Dropped,
		Next: func(written []byte, version int) []byte {
			return bytes.Replace(written, []byte("{"), fmt.Appendf(nil, `{"v":%d,`, version), 1)
		},
		Again: func(written []byte) ([]byte, error) {
			n, err := readNote(written)
			return text(n), err
		},
	})
	logtest.JSONCorpus[keepMemo](t, "testdata/corpus/told")
	logtest.JSONCorpus[shimResult](t, "testdata/corpus/result")
	logtest.Kept(t, "testdata/corpus/process", keptProcess{processID{2, 3}, processID{4, 5}})
	logtest.JSONCorpus[messageForm](t, "testdata/corpus/message")
	logtest.JSONCorpus[toShim](t, "testdata/corpus/to_shim")
	logtest.JSONCorpus[fromShim](t, "testdata/corpus/from_shim")
}

// Later versions can read what a shim has put into its ring.
func TestRingCorpus(t *testing.T) {
	write := func(frames []frame) []byte {
		var b []byte
		for _, f := range frames {
			b = appendFrame(b, int64(len(b)), f)
		}
		return b
	}
	today := write([]frame{
		{kind: frameStdout, said: 5_000_000_000, body: []byte("one\ntwo")}, {kind: frameStderr, partial: true, said: 6, body: []byte("thr")},
		{kind: frameMessage, said: 7, body: messageBody(ipc.Message{Type: ipc.TypeResult, ID: "1", Payload: json.RawMessage(`{"a":1}`)})}, {kind: frameRefused, said: 8, body: []byte(`{"type":"RESULT"}`)}, {kind: frameDropped, said: 9, body: []byte(droppedWords(2, 20, "the disk is full"))},
		{kind: frameWithheld, said: 10, body: []byte(ipc.TypeSpawn)}, {kind: frameMessage, said: 11, body: messageBody(ipc.Message{Type: ipc.TypeStatus, Payload: json.RawMessage(`"up"`), Bare: true})},
		{kind: frameReplaced, said: 12},
	})
	testkit.Test(t, testkit.Form{Dir: "testdata/corpus/ring", Version: keepVersion, Today: map[string][]byte{"ring.bin": today}, Again: func(written []byte) ([]byte, error) {
		name := filepath.Join(t.TempDir(), "ring")
		if err := os.WriteFile(name, written, 0o600); err != nil {
			return nil, err
		}
		r, err := openRing(name, ringSize, os.O_RDWR)
		if err != nil {
			return nil, err
		}
		defer r.close()
		var frames []frame
		for reader := (&ringReader{ring: r}); ; {
			f, err := reader.next()
			if err != nil {
				return write(frames), nil // what is left shows by its absence
			}
			f.body = bytes.Clone(f.body)
			frames = append(frames, f)
		}
	}})
}
