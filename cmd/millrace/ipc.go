package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/ipc"
	"millrace/task/job"
	"millrace/task/value"
)

// ipcFD is the variable that names the descriptor to which `millrace ipc` writes,
// for scripts whose standard output is a pipe of their own.
const ipcFD = "MILLRACE_IPC_FD"

// dataBatch is how many bytes of records one message of `millrace ipc data` carries at most.
const dataBatch = 64 << 10

func (a *app) ipcCommand() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use:   "ipc",
		Short: "Say something to Millrace from within a task",
		Long: `Prints one line that Millrace understands as a message of the task (docs/ipc.md), so that
a shell script can report progress, records and results. It needs no server. The line has
the key of the attempt, $MILLRACE_KEY, by which Millrace tells it from text that the script
only passes on.

The line goes to stdout, or to the descriptor that $MILLRACE_IPC_FD names: within a
pipe, keep the task's own stdout with "exec 3>&1" and set MILLRACE_IPC_FD=3.`,
		Example: `  millrace ipc progress 0.5
  millrace ipc progress 3 10 "third page"
  millrace ipc data '{"url":"https://example.com","status":200}'
  jq -c '.items[]' page.json | millrace ipc data
  millrace ipc checkpoint '{"page":7}'
  millrace ipc error "no route" --class network --retry-after 30s
  page=$(millrace ipc param page)`,
	})
	c.AddCommand(
		a.ipcText(ipc.TypeStatus, "status TEXT", "Say what the task is at"),
		a.ipcProgress(), a.ipcMetric(), a.ipcLog(), a.ipcData(), a.ipcError(),
		a.ipcJSON(ipc.TypeResult, "result JSON", "Set the task's result: any JSON of at most 64 kB, or text"),
		a.ipcJSON(ipc.TypeCheckpoint, "checkpoint JSON", "Store where the next attempt goes on: JSON of at most 64 kB, or text"),
		a.ipcPlain(ipc.TypeHeartbeat, "heartbeat", "Say that the program is still at work"),
		a.ipcPlain(ipc.TypeReady, "ready", "Say that the program begins its work"),
		a.ipcExtend(), a.ipcSpawn(), a.ipcParam(),
		a.ipcVariable("last", "MILLRACE_CHECKPOINT", "Print the checkpoint of an earlier attempt; nothing if there is none"),
	)
	return c
}

// sayToMillrace writes one message, if a Reader would accept it.
func (a *app) sayToMillrace(typ string, payload any) error {
	m := ipc.Message{Type: typ}
	if payload != nil {
		encoded, err := ipc.Payload(payload)
		if err != nil {
			return term.MisuseOf(fmt.Errorf("%s: %w", typ, err))
		}
		m.Payload = encoded
	}
	line, err := ipc.EncodeKeyed(m, os.Getenv(ipc.KeyVar))
	if err != nil {
		return term.MisuseOf(err)
	}
	switch item, err := ipc.NewReader(bytes.NewReader(line)).Next(); {
	case err != nil || !item.IsMessage():
		return term.MisuseOf(fmt.Errorf("this would be no %s message but a line of the log: see docs/ipc.md for what it may carry", typ))
	case item.Message.Excess != "":
		return term.MisuseOf(fmt.Errorf("%s: %s", typ, item.Message.Excess))
	}
	out, err := a.ipcOut()
	if err != nil {
		return err
	}
	_, err = out.Write(line)
	return err
}

func (a *app) ipcOut() (io.Writer, error) {
	text := os.Getenv(ipcFD)
	if text == "" {
		return a.Out, nil
	}
	fd, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, term.MisuseOf(fmt.Errorf("$%s is %q, want the number of an open descriptor", ipcFD, text))
	}
	f := os.NewFile(uintptr(fd), ipcFD)
	if _, err := f.Stat(); err != nil {
		return nil, term.MisuseOf(fmt.Errorf("$%s is %s, which is not open: open it with \"exec %s>&1\"", ipcFD, text, text))
	}
	return f, nil
}

func (a *app) ipcPlain(typ, use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: settings.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return a.sayToMillrace(typ, nil) }}
}

func (a *app) ipcText(typ, use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: settings.Takes(1, 1, "text"),
		RunE: func(_ *cobra.Command, args []string) error { return a.sayToMillrace(typ, args[0]) }}
}

func (a *app) ipcJSON(typ, use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: settings.Takes(1, 1, "JSON value"),
		RunE: func(_ *cobra.Command, args []string) error { return a.sayToMillrace(typ, jsonOrText(args[0])) }}
}

// jsonOrText returns a word as JSON if it is JSON, else as text.
func jsonOrText(word string) json.RawMessage {
	if json.Valid([]byte(word)) {
		return json.RawMessage(word)
	}
	quoted, _ := value.JSON(word) // text always has a JSON form
	return quoted
}

func (a *app) ipcProgress() *cobra.Command {
	return &cobra.Command{Use: "progress SHARE | DONE TOTAL [TEXT]", Short: "Say how far the task is: 0.5, or 3 10", Args: settings.Takes(1, 3, "share, or done and total"),
		RunE: func(c *cobra.Command, args []string) error {
			var n [2]float64
			for i, arg := range args[:min(len(args), 2)] {
				f, err := strconv.ParseFloat(arg, 64)
				if err != nil {
					return term.Misuse(c, "%q is no number", arg)
				}
				n[i] = f
			}
			if len(args) == 1 {
				return a.sayToMillrace(ipc.TypeProgress, n[0])
			}
			payload := map[string]any{"done": n[0], "total": n[1]}
			if len(args) == 3 {
				payload["message"] = args[2]
			}
			return a.sayToMillrace(ipc.TypeProgress, payload)
		}}
}

func (a *app) ipcMetric() *cobra.Command {
	return &cobra.Command{Use: "metric NAME=NUMBER...", Short: "Give figures their latest values", Args: settings.Takes(1, ipc.MaxMetrics, "figure"),
		RunE: func(c *cobra.Command, args []string) error {
			payload := map[string]float64{}
			for _, arg := range args {
				name, value, _ := strings.Cut(arg, "=")
				f, err := strconv.ParseFloat(value, 64)
				if err != nil || name == "" {
					return term.Misuse(c, "%q is no figure, want name=number", arg)
				}
				payload[name] = f
			}
			return a.sayToMillrace(ipc.TypeMetric, payload)
		}}
}

func (a *app) ipcLog() *cobra.Command {
	level := settings.Choice{Of: ipc.Levels}
	c := &cobra.Command{Use: "log TEXT [NAME=VALUE...]", Short: "Write an entry of the log, with fields", Args: settings.Takes(1, 64, "text")}
	c.Flags().Var(&level, "level", "its level: "+strings.Join(ipc.Levels, ", ")+" (default info)")
	c.RunE = func(c *cobra.Command, args []string) error {
		payload := map[string]any{"message": args[0], "level": level.Value}
		fields := map[string]json.RawMessage{}
		for _, arg := range args[1:] {
			name, value, ok := strings.Cut(arg, "=")
			if !ok || name == "" {
				return term.Misuse(c, "%q is no field, want name=value", arg)
			}
			fields[name] = jsonOrText(value)
		}
		if len(fields) > 0 {
			payload["fields"] = fields
		}
		return a.sayToMillrace(ipc.TypeLog, payload)
	}
	return c
}

func (a *app) ipcData() *cobra.Command {
	return &cobra.Command{Use: "data [JSON...]", Short: "Store records: JSON objects, or one a line on stdin", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.ipcDataFrom(a.In)
			}
			records := make([]json.RawMessage, len(args))
			for i, arg := range args {
				records[i] = json.RawMessage(arg)
			}
			return a.sayToMillrace(ipc.TypeInsertData, records)
		}}
}

// ipcDataFrom sends the records of a stream, as soon as no more are available at the moment.
func (a *app) ipcDataFrom(in io.Reader) error {
	r := bufio.NewReaderSize(in, dataBatch)
	d := json.NewDecoder(r)
	var batch []json.RawMessage
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := a.sayToMillrace(ipc.TypeInsertData, batch)
		batch, size = nil, 0
		return err
	}
	for {
		var record json.RawMessage
		err := d.Decode(&record)
		if err == nil && len(record) > 0 {
			batch, size = append(batch, record), size+len(record)
		}
		waits := r.Buffered() == 0 && buffered(d) == 0
		if err != nil || size >= dataBatch || waits {
			if err := flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return term.MisuseOf(fmt.Errorf("stdin: %w: want JSON objects", err))
		}
	}
}

// buffered returns how much a decoder has read and not used, white space not counted.
func buffered(d *json.Decoder) int {
	rest, err := io.ReadAll(d.Buffered())
	if err != nil {
		return 0 // it reads from memory
	}
	return len(bytes.TrimSpace(rest))
}

func (a *app) ipcError() *cobra.Command {
	var final, fatal bool
	var after settings.Span
	class := settings.Choice{Of: job.Classes}
	c := &cobra.Command{Use: "error TEXT", Short: "Say what went wrong; counts when the script then fails", Args: settings.Takes(1, 1, "text")}
	fs := c.Flags()
	fs.Var(&class, "class", "`class` of the failure: "+strings.Join(job.Classes, ", "))
	fs.BoolVar(&final, "final", false, "no other attempt can help")
	fs.BoolVar(&fatal, "fatal", false, "the attempt has failed even if the script ends with code 0")
	fs.Var(&after, "retry-after", "the least time until another attempt: 30s")
	c.RunE = func(_ *cobra.Command, args []string) error {
		payload := map[string]any{"message": args[0]}
		if class.Value != "" {
			payload["class"] = class.Value
		}
		if final {
			payload["retryable"] = false
		}
		if fatal {
			payload["fatal"] = true
		}
		if after.Given {
			payload["retry_after"] = after.D.String()
		}
		return a.sayToMillrace(ipc.TypeError, payload)
	}
	return c
}

func (a *app) ipcExtend() *cobra.Command {
	return &cobra.Command{Use: "extend DURATION", Short: "Ask for so much more time before the run timeout", Args: settings.Takes(1, 1, "duration"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.sayToMillrace(ipc.TypeExtend, map[string]string{"by": args[0]})
		}}
}

func (a *app) ipcSpawn() *cobra.Command {
	var key, queue string
	var params []string
	c := &cobra.Command{Use: "spawn [JOB] [-- COMMAND ARG...]", Short: "Submit a child of the task, of a job or of a command",
		DisableFlagsInUseLine: true}
	fs := c.Flags()
	fs.StringVar(&key, "key", "", "`key` of this child among its siblings; the same key makes no second child")
	fs.StringArrayVarP(&params, "param", "p", nil, "parameter `name=value`, of the type that the job declares; without a declaration JSON if it is valid JSON, else text (repeat it)")
	fs.StringVarP(&queue, "queue", "q", "", "`queue` to wait in")
	c.RunE = func(c *cobra.Command, args []string) error {
		names, argv, err := settings.SplitCommand(c, args, 1)
		if err != nil {
			return err
		}
		payload := map[string]any{}
		set := func(name, value string) {
			if value != "" {
				payload[name] = value
			}
		}
		set("key", key)
		set("job", names[0])
		set("queue", queue)
		if len(argv) > 0 {
			payload["argv"] = argv
		}
		given, err := settings.Pairs("param", params)
		if err != nil {
			return term.Misuse(c, "%w", err)
		}
		if len(given) > 0 {
			payload["texts"] = given
		}
		if (names[0] == "") == (len(argv) == 0) {
			return term.Misuse(c, "a child runs one thing: a job, or a command after \"--\"")
		}
		return a.sayToMillrace(ipc.TypeSpawn, payload)
	}
	return c
}

func (a *app) ipcVariable(use, name, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: settings.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			text, err := toldIn(name)
			if err == nil && text != "" {
				_, err = fmt.Fprintln(a.Out, text)
			}
			return err
		}}
}

// toldIn returns a value that Millrace gives a program in a variable, or in a file if it is too
// long for one.
func toldIn(name string) (string, error) {
	text, path := os.Getenv(name), os.Getenv(name+"_FILE")
	if text != "" || path == "" {
		return text, nil
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("$%s_FILE: %w", name, err)
	}
	return string(whole), nil
}

func (a *app) ipcParam() *cobra.Command {
	return &cobra.Command{Use: "param NAME", Short: "Print a parameter of the task: text as it is, anything else as JSON", Args: settings.Takes(1, 1, "parameter"),
		RunE: func(_ *cobra.Command, args []string) error {
			params := map[string]json.RawMessage{}
			text, err := toldIn("MILLRACE_PARAMS")
			if err != nil {
				return err
			}
			if text != "" {
				if err := json.Unmarshal([]byte(text), &params); err != nil {
					return fmt.Errorf("$MILLRACE_PARAMS: %w", value.Plainly(err))
				}
			}
			value, ok := params[args[0]]
			if !ok {
				return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("the task has no parameter %q", args[0])}
			}
			if json.Unmarshal(value, &text) != nil {
				text = string(value)
			}
			_, err = fmt.Fprintln(a.Out, text)
			return err
		}}
}
