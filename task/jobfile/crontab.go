package jobfile

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// CronOptions say how a crontab is read.
type CronOptions struct {
	// Zone is the IANA name of the zone of the machine whose crontab it is.
	Zone string
	// System tells that lines name a user before the command, as those of /etc/crontab and /etc/cron.d do.
	System bool
	// Prefix begins the names of jobs.
	Prefix string
}

// CronLine is a line of a crontab that says when something runs.
type CronLine struct {
	// Line is its number, from 1, and Text the line.
	Line int    `json:"line"`
	Text string `json:"text"`
	// Job does the same, with its schedule; nil if the line is not taken, and Refused says why.
	Job     *job.Job `json:"job,omitempty"`
	Refused string   `json:"refused,omitempty"`
	// Differs says what is different from what cron does with this line.
	Differs []string `json:"differs,omitempty"`
}

// CronDiffers says what is different of all lines.
func CronDiffers() []string {
	return []string{
		"what a run prints is in its task (`millrace task logs ID`), and no mail is sent",
		"a run begins in an empty folder of its own, not in the user's home, unless HOME is set; its environment is the worker's, with what the crontab sets",
		"any node of its queue runs it; place in the job file of --print binds it to one",
	}
}

var (
	cronVariable = regexp.MustCompile(`^["']?([A-Za-z_][A-Za-z0-9_]*)["']?\s*=\s*(.*)$`)
	cronParts    = regexp.MustCompile(`&&|\|\||;`)
	cronStep     = regexp.MustCompile(`(^|,)[0-9]+/`)
	notInNames   = regexp.MustCompile(`[^A-Za-z0-9_]+`)
)

// cronReader is the state of a crontab between two lines.
type cronReader struct {
	CronOptions
	env   map[string]string
	zone  string
	delay int // minutes at random, as cronie has them
	mail  string
	names map[string]int
}

// ReadCrontab reads a crontab. Nothing that it has is left out without a word, except comments.
func ReadCrontab(text []byte, o CronOptions) (all []CronLine) {
	r := &cronReader{CronOptions: o, env: map[string]string{}, zone: o.Zone, names: map[string]int{}}
	for n, line := range strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		line = strings.TrimSpace(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		is := CronLine{Line: n + 1, Text: line}
		if set := cronVariable.FindStringSubmatch(line); set != nil {
			if is.Refused = r.set(set[1], unquoted(set[2])); is.Refused != "" {
				all = append(all, is)
			}
			continue
		}
		if err := r.read(&is); err != nil {
			is.Job, is.Differs, is.Refused = nil, nil, value.Plainly(err).Error()
		}
		all = append(all, is)
	}
	return all
}

func unquoted(text string) string {
	if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}

// set reads a variable, which holds for the lines below, and says why it cannot.
func (r *cronReader) set(name, to string) (refused string) {
	switch name {
	case "MAILTO":
		r.mail = to
	case "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "LOGNAME", "USER":
		// These are for mails, or follow from the user.
	case "CRON_TZ":
		if _, err := time.LoadLocation(to); err != nil {
			return fmt.Sprintf("CRON_TZ is %q, and no zone has that name; the lines below keep %s", to, r.zone)
		}
		r.zone = to
	case "RANDOM_DELAY":
		n, err := strconv.Atoi(to)
		if err != nil || n < 0 {
			return fmt.Sprintf("RANDOM_DELAY is %q, want a number of minutes", to)
		}
		r.delay = n
	default:
		r.env[name] = to
	}
	return ""
}

// read makes the job of a line.
func (r *cronReader) read(is *CronLine) error {
	count := 5
	if is.Text[0] == '@' {
		count = 1
	}
	fields, rest := cutFields(is.Text, count)
	when := strings.Join(fields, " ")
	differs := func(format string, args ...any) { is.Differs = append(is.Differs, fmt.Sprintf(format, args...)) }
	if when == "@annually" {
		when = "@yearly"
	}
	for _, field := range fields {
		if cronStep.MatchString(field) {
			return fmt.Errorf("%s is refused by cron, too: write a range before the step, as in %s", field, strings.Replace(field, "/", "-59/", 1))
		}
	}
	run := job.Run{}
	if r.System {
		var user []string
		user, rest = cutFields(rest, 1)
		run.User = strings.Join(user, "")
		differs("it runs as %s: the worker must run as root, or as %s", run.User, run.User)
	}
	command, input, piped := percents(rest)
	if command == "" {
		return fmt.Errorf("the command is missing: want %s and a command", map[bool]string{true: "five fields, a user", false: "five fields"}[r.System])
	}
	j := &job.Job{Name: r.name(command), Title: value.Cut(command, 80), Description: "From a crontab: " + is.Text, Schedule: &job.Schedule{Cron: when, CatchUp: job.CatchUpNone}}
	if r.zone != "UTC" {
		j.Schedule.Timezone = r.zone
	}
	if piped {
		command = "printf '%s' '" + strings.ReplaceAll(input, "'", `'\''`) + "' | { " + command + "\n}"
		differs("what stands behind %% is piped into the command")
	}
	run.Env = map[string]string{}
	for name, to := range r.env {
		if name != "SHELL" {
			run.Env[name] = to
		}
	}
	if home := r.env["HOME"]; strings.HasPrefix(home, "/") {
		run.Dir = home
	}
	if shell := cmp.Or(r.env["SHELL"], "/bin/sh"); shell == "/bin/sh" || shell == "sh" {
		run.Shell = command
	} else {
		run.Argv = []string{shell, "-c", command}
	}
	if r.mail != "" {
		differs("%s gets no mail of what it prints", r.mail)
	}
	if r.delay > 0 {
		j.Schedule.Jitter = value.Duration(time.Duration(r.delay) * time.Minute)
		differs("RANDOM_DELAY is jitter here: each run has its own delay, always the same for one planned time")
	}
	j.Run = &run
	is.Job = j
	if err := schedule.ValidateOfJob(j, "timetable", nil); err != nil {
		return err
	}
	return j.Validate()
}

// cutFields returns the first fields of a line, and what follows.
func cutFields(line string, n int) (fields []string, rest string) {
	rest = line
	for range n {
		rest = strings.TrimLeft(rest, " \t")
		at := strings.IndexAny(rest, " \t")
		if at < 0 {
			return append(fields, rest), ""
		}
		fields, rest = append(fields, rest[:at]), rest[at:]
	}
	return fields, strings.TrimLeft(rest, " \t")
}

// percents parts a command from its standard input as cron does: at the first %, with line feeds for the
// others. A % behind a backslash is none.
func percents(text string) (command, input string, piped bool) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			part.WriteByte('%')
			i++
		case text[i] == '%':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	parts = append(parts, part.String())
	command = strings.TrimSpace(parts[0])
	if len(parts) == 1 {
		return command, "", false
	}
	return command, strings.TrimSuffix(strings.Join(parts[1:], "\n"), "\n") + "\n", true
}

// wrappers are programs that run another one, and are no name for a job.
var wrappers = map[string]bool{
	"nice": true, "ionice": true, "flock": true, "sudo": true, "env": true, "timeout": true, "nohup": true, "exec": true, "time": true, "chronic": true, "setsid": true, "run-parts": true,
	"sh": true, "bash": true, "python": true, "python3": true, "perl": true, "php": true, "ruby": true, "node": true, "true": true,
}

// asides begin parts of a line that only prepare what it is for.
var asides = map[string]bool{"cd": true, "test": true, "[": true, ".": true, "source": true, "umask": true, "sleep": true, "export": true}

// name calls a job after the program of its command, with a number if another line has that name.
func (r *cronReader) name(command string) string {
	name := ""
	for _, part := range cronParts.Split(command, -1) {
		words := strings.Fields(strings.Trim(part, " \t(){}"))
		if name != "" || len(words) == 0 || asides[words[0]] {
			continue
		}
		for _, word := range words {
			base := path.Base(strings.Trim(word, `"'`))
			if ext := path.Ext(base); len(ext) > 1 && len(ext) < 5 && ext != base {
				base = strings.TrimSuffix(base, ext)
			}
			base = strings.Trim(notInNames.ReplaceAllString(base, "-"), "-_")
			if base == "" || strings.HasPrefix(word, "-") || strings.ContainsAny(word, "=&|<>$") || strings.HasSuffix(word, "lock") || wrappers[base] || base[0] >= '0' && base[0] <= '9' {
				continue
			}
			name = base
			break
		}
	}
	name = r.Prefix + value.Cut(cmp.Or(name, "line"), 40)
	r.names[name]++
	if n := r.names[name]; n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name
}
