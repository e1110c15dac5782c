package ipc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read returns what r delivers in a form that is easy to compare: "TYPE payload" for a message, the
// text in quotes for a line, with ... if it goes on and with ! if bytes were replaced.
func read(t testing.TB, r *Reader) []string {
	t.Helper()
	var got []string
	for {
		item, err := r.Next()
		switch {
		case err == io.EOF:
			return got
		case err != nil:
			return append(got, err.Error())
		case item.IsMessage():
			got = append(got, fmt.Sprintf("%s %s%s", item.Message.Type, item.Message.Payload, item.Message.Excess))
		default:
			item.Line.Each(func(l Line) {
				s := fmt.Sprintf("%q", l.Text)
				if l.Partial {
					s += "..."
				}
				if l.Replaced {
					s += "!"
				}
				got = append(got, s)
			})
		}
	}
}

func small(src io.Reader) *Reader {
	r := NewReader(src)
	r.maxLine, r.maxMessage = 8, 48
	return r
}

func TestReader(t *testing.T) {
	status := `{"type":"STATUS","payload":{"progress":0.25}}`
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"empty lines", "\n\r\n\n", []string{`""`, `"\r"`, `""`}},
		{"lines", "a\nb\n", []string{`"a"`, `"b"`}},
		{"no end", "a\nb", []string{`"a"`, `"b"`}},
		{"crlf", "a\r\nb\r\r\n\rc\r", []string{`"a\r"`, `"b\r\r"`, `"\rc\r"`}},
		{"progress bar", "1%\r2%\r\n", []string{`"1%\r2%\r"`}},
		{"message", "a\n" + status + "\nb\n", []string{`"a"`, `STATUS {"progress":0.25}`, `"b"`}},
		{"message, crlf", status + "\r\n", []string{`STATUS {"progress":0.25}`}},
		{"message without end", "a\n" + status, []string{`"a"`, `STATUS {"progress":0.25}`}},
		{"exactly a piece", "12345678\n12345678\r\n12345678", []string{`"12345678"`, `"12345678\r"`, `"12345678"`}},
		{"pieces", "123456781\n", []string{`"12345678"...`, `"1"`}},
		{"pieces without end", "12345678123456781", []string{`"12345678"...`, `"12345678"...`, `"1"`}},
		{"crlf at the cut", "1234567\r\n1234567\r8\r\n12345678\r\n123456789\r\n", []string{`"1234567\r"`, `"1234567\r"...`, `"8\r"`, `"12345678\r"`, `"12345678"...`, `"9\r"`}},
		{"character at the cut", "1234567€5\n", []string{`"1234567"...`, `"€5"`}},
		{"no character at the cut", "1234\x80\x80\x80\x80\x80\x80\x80\x80\n", []string{`"1234����"...!`, `"����"!`}},
		{"zero bytes", "a\x00\x00b\n\x00\n", []string{`"a��b"!`, `"�"!`}},
		{"binary", "\xff\xfe\x00a\xc3\n\xc3\xa9\n", []string{`"���a�"!`, `"é"`}},
		{"replacement character itself", "�\n", []string{`"�"`}},
		{"looks like one", "{\"a\":1}\n{\n", []string{`"{\"a\":1}"`, `"{"`}},
		{"unknown type", `{"type":"NEWS"}` + "\n", []string{`"{\"type\":"...`, `"\"NEWS\"}"`}},
		{"too long for a message", strings.Repeat(" ", 7) + status + "\nb\n", []string{`STATUS its line has 52 bytes, want at most 48`, `"b"`}},
		{"much too long, without end", status[:43] + strings.Repeat("5", 100), []string{`STATUS its line has 143 bytes, want at most 48`}},
		{"too long, crlf, and another", status[:43] + strings.Repeat("5", 100) + "}}\r\n" + status, []string{`STATUS its line has 146 bytes, want at most 48`, `STATUS {"progress":0.25}`}},
		{"too long, of no known type", `{"type":"N","payload":` + strings.Repeat("5", 30) + "}\n",
			[]string{`"{\"type\":"...`, `"\"N\",\"pay"...`, `"load\":55"...`, `"55555555"...`, `"55555555"...`, `"55555555"...`, `"5555}"`}},
		{"too long, with something wrong", `{"type":"STATUS"  x` + strings.Repeat("5", 30) + "\n",
			[]string{`"{\"type\":"...`, `"\"STATUS\""...`, `"  x55555"...`, `"55555555"...`, `"55555555"...`, `"55555555"...`, `"5"`}},
		{"longest message", "  " + status + " \n", []string{`STATUS {"progress":0.25}`}},
		{"message within a long line", "123456789" + status + "\n",
			[]string{`"12345678"...`, `"9{\"type\""...`, `":\"STATUS"...`, `"\",\"paylo"...`, `"ad\":{\"pr"...`, `"ogress\":"...`, `"0.25}}"`}},
		{"brace at the beginning of a piece", "12345678" + status[:9] + "\n", []string{`"12345678"...`, `"{\"type\":"...`, `"\""`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := read(t, small(strings.NewReader(c.in))); !slices.Equal(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
			if got := read(t, small(iotest.OneByteReader(strings.NewReader(c.in)))); !slices.Equal(got, c.want) {
				t.Errorf("byte by byte: got  %v\nwant %v", got, c.want)
			}
		})
	}
}

func TestTextReader(t *testing.T) {
	const line = `{"type":"STATUS","payload":{}}`
	got := read(t, NewTextReader(strings.NewReader(line+"\n")))
	if want := []string{fmt.Sprintf("%q", line)}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReaderDeliversBeforeItFails(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	if got, want := read(t, r), []string{`"a"`, `"b"`, "broken"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("asked again: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReaderRefusesToSpin(t *testing.T) {
	if _, err := NewReader(idle{}).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that never moves: %v", err)
	}
}

func TestReaderMemoryIsBounded(t *testing.T) {
	for _, flood := range []string{"x", "{", "{\"type\":", " ", "\x00", "\xff", "é"} {
		r := NewReader(io.LimitReader(forever(flood), 3<<20))
		pieces := 0
		for {
			item, err := r.Next()
			if err != nil {
				break
			}
			pieces++
			if n := len(item.Line.Text); n > 3*MaxLine {
				t.Fatalf("a piece of %d bytes", n)
			}
		}
		if pieces < 40 {
			t.Errorf("%q: %d pieces", flood, pieces)
		}
		if len(r.buf) > 2*MaxMessage+2*flowBuffer || cap(r.text) > 4*MaxLine {
			t.Errorf("%q: a buffer of %d and one of %d bytes", flood, len(r.buf), cap(r.text))
		}
		if r.Reset(nil, Gate{}); len(r.buf) > keepBuffer || cap(r.text) > keepBuffer {
			t.Errorf("%q: %d and %d bytes are kept", flood, len(r.buf), cap(r.text))
		}
	}
}

type forever string

func (f forever) Read(p []byte) (int, error) {
	n := 0
	for n+len(f) <= len(p) {
		n += copy(p[n:], f)
	}
	return n, nil
}

// FuzzReader compares the Reader with the plainest thing that could do the same:
// split at line ends, try each line as a message. Every byte is accounted for.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"a\r\nb\n\nc", "{\"type\":\"STATUS\",\"payload\":{}}\n{\"type\":\"RESULT\",\"payload\":[1]}",
		"\x00\xff\xfe\r\r\n€€€€€€\n", "{\"type\":\"ERROR\",\"payload\":\"\\u00e9\xff\"}\r\n",
		`{"progress":0.5,"perf":{"a":1}}` + "\n" + `{"complete":1,"code":7}`, `{"type":"SPAWN","payload":{"key":"a"}}`,
		`{"type":"METRIC","payload":{"a":1}}` + "\n" + `{"type":"EXTEND","payload":"1m"}`, `{"v":1,"id":7,"type":"HEARTBEAT"}`,
		strings.Repeat("{", 100), " \t{\"payload\":{},\"type\":\"INSERT_DATA\"}x",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, chunk uint8) {
		var want []string
		for rest := in; len(rest) > 0; {
			line, after, ended := bytes.Cut(rest, []byte("\n"))
			whole := line
			if ended {
				line = bytes.TrimSuffix(line, []byte("\r"))
			}
			trimmed := bytes.TrimLeft(line, " \t")
			m, _, ok := parse(line)
			several := parseFlat(line).all
			if short := len(line) <= 48 && len(trimmed) > 0 && trimmed[0] == '{'; ok && short {
				want = append(want, m.Type+" "+string(m.Payload)+m.Excess)
			} else if len(several) > 0 && short {
				for _, m := range several {
					want = append(want, m.Type+" "+string(m.Payload))
				}
			} else if m, ok := tooLong(whole, trimmed); ok {
				want = append(want, m)
			} else {
				want = append(want, string(whole))
			}
			rest = after
		}

		var got []string
		r, whole := small(&chunks{in, int(chunk)}), ""
		for {
			if text, n := r.run(); n > 0 {
				lines := strings.Split(string(text), "\n")
				if _, replaced := clean(nil, text); n < 2 || len(lines) != n || len(text) > 8+1 || replaced {
					t.Fatalf("%q at once, as %d lines", text, n)
				}
				got = append(got, lines...)
				continue
			}
			m, raw, partial, err := r.next()
			if err != nil {
				break
			}
			if m.Type != "" {
				got = append(got, m.Type+" "+string(m.Payload)+m.Excess)
				continue
			}
			if len(raw) > 8 || partial && len(raw) == 0 {
				t.Fatalf("a piece of %d bytes", len(raw))
			}
			if text, replaced := clean(nil, raw); !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 || !replaced && !bytes.Equal(text, raw) {
				t.Fatalf("%q became %q (%v)", raw, text, replaced)
			}
			if whole += string(raw); !partial {
				got, whole = append(got, whole), ""
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	})
}

// tooLong returns the result for a line that is longer than the 48 bytes of a message and begins as
// one.
func tooLong(line, trimmed []byte) (string, bool) {
	if len(line) <= 48 || len(trimmed) == 0 || trimmed[0] != '{' {
		return "", false
	}
	m, _, ok := head(line[:48])
	return fmt.Sprintf("%s its line has %d bytes, want at most 48", m.Type, len(line)), ok
}

// chunks reads a few bytes at a time.
type chunks struct {
	rest []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.size+1)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"text", "2024-05-06T07:08:09Z INFO fetched https://example.org/some/page in 123 ms, 200 OK, 4567 bytes\n"},
		{"json log", `{"time":"2024-05-06T07:08:09Z","level":"info","msg":"fetched a page","url":"https://example.org/"}` + "\n"},
		{"binary", strings.Repeat("\x00\x01\xfe\xff", 24) + "\n"},
		{"record", `{"type":"INSERT_DATA","payload":{"url":"https://example.org/some/page","title":"A page","n":12}}` + "\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			src := strings.NewReader(strings.Repeat(c.line, 10_000))
			r := NewReader(src)
			b.SetBytes(src.Size())
			b.ReportAllocs()
			items := 0
			for b.Loop() {
				src.Seek(0, io.SeekStart)
				for r.Reset(src, Gate{}); ; {
					item, err := r.Next()
					if err != nil {
						break
					}
					items += max(item.Line.Several, 1)
				}
			}
			b.ReportMetric(float64(items)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
