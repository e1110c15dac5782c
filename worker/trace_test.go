package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task/output"
)

// TestTheFailureOfATrace: what a program prints last when it fails is a frame; its failure is what the message has.
func TestTheFailureOfATrace(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"Go": {`read 3 orders
panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.transform(...)
	/srv/etl/main.go:18
main.main()
	/srv/etl/main.go:31 +0x1a5
exit status 2`, "panic: runtime error: index out of range [5] with length 3"},
		"Go, a nil pointer": {`panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x45]

goroutine 1 [running]:
main.main()
	/srv/main.go:5 +0x2`, "panic: runtime error: invalid memory address or nil pointer dereference"},
		"Go, a panic after a panic": {"panic: first\n\tpanic: second\n\ngoroutine 1 [running]:\nmain.f.func1()\n\t/m.go:5 +0x2", "panic: second"},
		"Go, an error of lines":     {"panic: one\n\ttwo\n\ngoroutine 1 [running]:\nmain.main()\n\t/m.go:5 +0x2", "panic: one"},
		"Go, a deadlock": {`fatal error: all goroutines are asleep - deadlock!

goroutine 1 [chan receive]:
main.main()
	/srv/main.go:4 +0x2b`, "fatal error: all goroutines are asleep - deadlock!"},
		"Go, many goroutines": {"panic: boom\n\ngoroutine 7 [running]:\nmain.f(0x1, {0x2?, 0x3?})\n\t/m.go:1 +0x2\ncreated by main.main in goroutine 1\n\t/m.go:3 +0x4" +
			strings.Repeat("\n\ngoroutine 1 [select]:\nmain.(*T).g(0x1)\n\t/m.go:9 +0x1", 500), "panic: boom"},
		"Go, printed and survived": {"handler failed\ngoroutine 1 [running]:\nmain.main()\n\t/m.go:5 +0x2\ngiving up after 3 tries", "giving up after 3 tries"},
		"Go, logged":               {"2026/11/28 01:02:03 http: panic serving 127.0.0.1:4: boom\ngoroutine 5 [running]:\nnet/http.(*conn).serve.func1()\n\t/n.go:5 +0x2", "2026/11/28 01:02:03 http: panic serving 127.0.0.1:4: boom"},
		"Python": {`Traceback (most recent call last):
  File "/srv/etl.py", line 3, in <module>
    main()
ValueError: no order 7`, "ValueError: no order 7"},
		"Python, a message of lines": {"Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    g()\npsycopg2.errors.SyntaxError: syntax error at or near \"FRM\"\n\nLINE 1: SELECT\n",
			`LINE 1: SELECT`},
		"Python, an indented message": {"Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    g()\napp.Broken: 2 faults\n  one\n  two", "app.Broken: 2 faults"},
		"Python, twice": {`Traceback (most recent call last):
  File "x.py", line 1, in f
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "x.py", line 3, in g
RuntimeError: no x`, "RuntimeError: no x"},
		"Python, a group": {`  + Exception Group Traceback (most recent call last):
  |   File "g.py", line 1, in <module>
  |     raise ExceptionGroup("both", [ValueError(1), TypeError("t")])
  | ExceptionGroup: both (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +---------------- 2 ----------------
    | TypeError: t
    +------------------------------------`, "ExceptionGroup: both (2 sub-exceptions)"},
		"Java": {`Exception in thread "main" java.lang.IllegalStateException: the queue is closed
	at com.acme.Queue.put(Queue.java:41)
	at com.acme.Main.main(Main.java:12)`, `Exception in thread "main" java.lang.IllegalStateException: the queue is closed`},
		"Java, with its cause": {`Exception in thread "main" java.lang.RuntimeException: import failed
	at com.acme.Main.main(Main.java:12)
Caused by: java.io.IOException: disk full
	at com.acme.Disk.write(Disk.java:3)
	... 1 more`, `Exception in thread "main" java.lang.RuntimeException: import failed; caused by java.io.IOException: disk full`},
		"Java, a message of lines": {"Exception in thread \"main\" com.acme.BadOrderException: order 7:\nno customer\nno price\n\tat com.acme.Main.main(Main.java:12)", `Exception in thread "main" com.acme.BadOrderException: order 7:`},
		"Java, any name":           {"reading\ncom.acme.Boom\n\tat com.acme.Main.main(Main.java:12)", "com.acme.Boom"},
		"Node": {`/srv/app/etl.js:3
    throw new TypeError("no orders");
    ^

TypeError: no orders
    at Object.<anonymous> (/srv/app/etl.js:3:9)
    at Module._compile (node:internal/modules/cjs/loader:1256:14)

Node.js v18.19.0`, "TypeError: no orders"},
		"Node, with fields": {`node:internal/fs/utils:351
    throw err;
    ^

Error: ENOENT: no such file or directory, open 'x'
    at Object.openSync (node:fs:601:3) {
  errno: -2,
  code: 'ENOENT'
}

Node.js v20.1.0`, "Error: ENOENT: no such file or directory, open 'x'"},
		"Node, a promise": {`node:internal/process/promises:288
            triggerUncaughtException(err, true /* fromPromise */);
            ^

[UnhandledPromiseRejection: This error originated by rejecting a promise. The promise rejected with the reason "no".] {
  code: 'ERR_UNHANDLED_REJECTION'
}

Node.js v18.19.0`, `[UnhandledPromiseRejection: This error originated by rejecting a promise. The promise rejected with the reason "no".]`},
		"Rust":                {"thread 'main' panicked at src/main.rs:2:5:\nno order 7\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "no order 7"},
		"Rust, with frames":   {"thread 'main' panicked at src/main.rs:2:5:\nno order 7\nstack backtrace:\n   0: rust_begin_unwind\n             at /rustc/1/library/std/src/panicking.rs:645:5\nnote: Some details are omitted", "note: Some details are omitted"},
		".NET":                {"Unhandled exception. System.InvalidOperationException: no order 7\n   at Etl.Main() in /srv/etl.cs:line 4", "Unhandled exception. System.InvalidOperationException: no order 7"},
		"Ruby":                {"etl.rb:1:in 'f': no order 7 (RuntimeError)\n\tfrom etl.rb:3:in '<main>'", "etl.rb:1:in 'f': no order 7 (RuntimeError)"},
		"an ordinary at":      {"the backup begins\n  at 03:00 it failed", "at 03:00 it failed"},
		"words after a trace": {"KeyError: 'x'\n\tat a.B.c(B.java:1)\nwill try again\nno luck", "no luck"},
	} {
		for _, whole := range []bool{true, false} {
			o := &Output{}
			if whole {
				o.said.hear(output.Stderr, []byte(c.text), false, time.Now())
			} else {
				for line := range strings.SplitSeq(c.text, "\n") {
					o.said.hear(output.Stderr, []byte(line), false, time.Now())
				}
			}
			if got := o.LastLine(output.Stdout, output.Stderr, output.Log); got != c.want {
				t.Errorf("%s, at once %v: %q, want %q", name, whole, got, c.want)
			}
		}
	}
}

// BenchmarkHear: most attempts print many lines and few fail.
func BenchmarkHear(b *testing.B) {
	text := []byte(strings.TrimSuffix(strings.Repeat(fmt.Sprintln("2026-11-28 01:02:03 INFO fetched https://example.com/a/b and stored 17 records"), 1000), "\n"))
	var s said
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.hear(output.Stdout, text, false, time.Time{})
	}
}
