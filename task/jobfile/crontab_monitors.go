package jobfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/task/job"
	"millrace/task/schedule"
)

var (
	// cronPings is a command that pings already.
	cronPings = regexp.MustCompile(`^(?:\S*/)?millrace ping ([A-Za-z0-9_-]+) `)
	// cronPlain is a command that a shell does not change.
	cronPlain = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./:,+@ -]*$`)
)

// Watch makes monitors of the jobs of lines, for programs that cron runs on, and returns the crontab in which
// they ping them. Comments in it say what is not watched, and why.
func Watch(text []byte, lines []CronLine, o CronOptions, grace, most time.Duration) string {
	all := strings.Split(string(text), "\n")
	for i := range lines {
		l, line := &lines[i], strings.TrimSuffix(all[lines[i].Line-1], "\r")
		if l.Job == nil {
			why := "# millrace does not watch this line: " + l.Refused
			if l.Line < 2 || all[l.Line-2] != why {
				all[l.Line-1] = why + "\n" + line
			}
			continue
		}
		was, late := l.Job, grace
		l.Differs = nil
		if jitter := was.Schedule.Jitter.Std(); jitter > 0 {
			late += jitter
			l.Differs = append(l.Differs, fmt.Sprintf("RANDOM_DELAY makes its grace %v", late))
		}
		fields := 5
		if l.Text[0] == '@' {
			fields = 1
		}
		if o.System {
			fields++
		}
		_, command := cutFields(line, fields)
		head := strings.TrimSuffix(line, command)
		m := schedule.Monitor{Name: was.Name, When: *was.Schedule, Grace: late, Max: most}
		m.When.Jitter = 0
		pings := cronPings.FindStringSubmatch(command)
		if pings != nil {
			m.Name = pings[1]
		}
		j := m.Job()
		j.Title, j.Description = was.Title, was.Description
		if l.Job = &j; pings != nil {
			continue
		}
		all[l.Line-1] = head + "millrace ping " + m.Name + " -- " + cronCommand(command, was.Run)
		for _, differs := range slices.Backward(l.Differs) {
			all[l.Line-1] = "# " + differs + "\n" + all[l.Line-1]
		}
	}
	return strings.Join(all, "\n")
}

// cronCommand is a command of a crontab as words behind another one. What stands behind the first % stays its input.
func cronCommand(text string, of *job.Run) string {
	end := len(text)
	for i := range text {
		if text[i] == '%' && (i == 0 || text[i-1] != '\\') {
			end = i
			break
		}
	}
	command, input := strings.TrimSpace(text[:end]), text[end:]
	if first, _, _ := strings.Cut(command, " "); cronPlain.MatchString(command) && !asides[first] && !strings.Contains(first, "=") {
		return command + input
	}
	shell := "/bin/sh"
	if len(of.Argv) > 0 {
		shell = of.Argv[0]
	}
	return shell + " -c '" + strings.ReplaceAll(command, "'", `'\''`) + "'" + input
}
