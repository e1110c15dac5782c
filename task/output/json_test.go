package output

import (
	"bytes"
	"encoding/json"
	"millrace/task"
	"strings"
	"testing"
	"time"
)

// FuzzLinesAppendJSON compares the encoder with encoding/json, byte by byte.
func FuzzLinesAppendJSON(f *testing.F) {
	f.Add("plain", "stdout", "", []byte(nil), int64(0), 3, int64(0), false)
	f.Add("<b>&amp;</b> \"quoted\" \\ \x00\x1f\x7f\b\f\n\r\t é € \U0001f600 \u2028\u2029 \ufffd \xff\xed\xa0\x80", "log", "warn", []byte(` {"a": [1, "<"], "b": "\u2028"} `), int64(1e18), 1, int64(9), true)
	f.Add(strings.Repeat("seven\x1f7", 20)+"\xe2\x80", "", "\"", []byte(`[`), int64(-1<<62), -1, int64(-1), false)
	f.Add("2026-11-05 INFO crawled\n2026-11-05 INFO crawled\n", "stdout", "", []byte("null"), int64(253402300800), 0, int64(1), false)
	f.Fuzz(func(t *testing.T, text, stream, level string, fields []byte, at int64, n int, upto int64, more bool) {
		zone := time.FixedZone("", n%100*60)
		b := Lines{Task: task.ID(stream), Attempt: n, Epoch: uint64(upto), Dropped: n >> 1, Lines: []Line{
			{N: n, At: time.Unix(at, upto).In(zone), Stream: stream, Text: text, Level: level, Fields: fields, More: more, Several: n, Upto: upto},
			{Text: level + text, Fields: []byte(nil)},
		}}
		if n == 0 {
			b.Lines = b.Lines[:0]
		}
		if n == -1 {
			b.Lines = nil
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		wantErr := e.Encode(b)
		got, err := b.AppendJSON([]byte("before"))
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if want := "before" + strings.TrimSuffix(want.String(), "\n"); err == nil && string(got) != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

func BenchmarkLinesAppendJSON(b *testing.B) {
	line := "2026-11-05T12:00:00.000Z INFO  crawler.engine: crawled (200) <GET https://example.org/page/00000000>\n"
	for _, c := range []struct{ name, text string }{
		{"ascii", strings.Repeat(line, 640)}, {"not ascii", strings.Repeat(strings.ReplaceAll(line, "crawl", "Müll ✓"), 600)}, {"quotes", strings.Repeat(strings.ReplaceAll(line, " ", `":"`), 500)},
	} {
		b.Run(c.name, func(b *testing.B) {
			batch := Lines{Lines: []Line{{Text: c.text}}}
			b.SetBytes(int64(len(c.text)))
			var to []byte
			for b.Loop() {
				to, _ = batch.AppendJSON(to[:0])
			}
		})
	}
}
