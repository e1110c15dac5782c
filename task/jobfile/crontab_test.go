package jobfile

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
)

// A crontab as they are: each line becomes a job, or it is said why not; nothing is left out without a word.
func TestReadCrontab(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/crontab")
	if err != nil {
		t.Fatal(err)
	}
	const mail = "ops@example.org gets no mail of what it prints"
	want := []string{
		"6 cron-hourly 17 * * * *: " + mail, "7 cron-daily 25 6 * * *: " + mail, "8 backup 30 2 * * *: " + mail, "9 rsync */5 * * * *: " + mail, "10 artisan */10 8-18 * * mon-fri: " + mail,
		"11 pg_dump 0 4 * * 0: " + mail, "12 pg_dump-2 0 4 * * 7: " + mail, "13 refused: no schedule begins with a machine", "14 certbot @daily: " + mail, "15 poll @hourly: " + mail, "16 echo @yearly: " + mail,
		"17 first-sunday 0 0 1-7 * */7: " + mail, "18 both-days 0 12 1,15 * 5: " + mail, "19 refused: refused by cron, too", "20 refused: want 0 to 59",
		"21 mail 0 9 * * mon: what stands behind % is piped into the command; " + mail, "24 nightly 0 3 * * *: ", "25 refused: no zone has that name", "26 refused: which never comes",
		"28 spread 0 1 * * *: RANDOM_DELAY is jitter", "31 relative */2 * * * *: ", "32 refused: the command is missing", "33 with-env 0 22 * * 1-5: ", "34 names 15,45 */2 1 JAN,jul *: ", "36 backup-2 0 5 * * *: ", "37 last-day 0 0 L * *: ",
	}
	lines := ReadCrontab(text, CronOptions{Zone: "UTC"})
	if len(lines) != len(want) {
		t.Fatalf("there are %d lines, want %d", len(lines), len(want))
	}
	jobs := map[int]*job.Job{}
	for i, l := range lines {
		got := fmt.Sprintf("%d refused: %s", l.Line, l.Refused)
		if l.Job != nil {
			got, jobs[l.Line] = fmt.Sprintf("%d %s %s: %s", l.Line, l.Job.Name, l.Job.Schedule.Cron, strings.Join(l.Differs, "; ")), l.Job
			if file, err := Marshal(*l.Job); err != nil {
				t.Errorf("line %d is in no job file: %v\n%s", l.Line, err, file)
			}
		}
		begins, has, refused := strings.Cut(want[i], " refused: ")
		if !strings.HasPrefix(got, begins) || refused && !strings.Contains(got, has) {
			t.Errorf("it is %s\nwant %s", got, want[i])
		}
	}
	for line, want := range map[int]string{
		11: `{"argv":["/bin/bash","-c","pg_dump shop | gzip > /backup/shop-$(date +%F).sql.gz"]`,
		21: `{"argv":["/bin/bash","-c","printf '%s' 'Good morning,\nhere is \"the\" report.\n' | { mail -s Report boss\n}"]`,
		31: `"dir":"/srv/app","env":{"HOME":"/srv/app","PATH":`,
	} {
		if is, _ := json.Marshal(jobs[line].Run); !strings.Contains(strings.NewReplacer(`\u003e`, ">").Replace(string(is)), want) {
			t.Errorf("line %d runs %s, want %s", line, is, want)
		}
	}
	if s := jobs[24].Schedule; s.Timezone != "Europe/Berlin" || s.CatchUp != job.CatchUpNone || jobs[8].Schedule.Timezone != "" || jobs[28].Schedule.Jitter.String() != "15m0s" && jobs[28].Schedule.Jitter.String() != "15m" {
		t.Errorf("schedules are %+v, %+v", s, jobs[28].Schedule)
	}
}

func TestReadSystemCrontab(t *testing.T) {
	t.Parallel()
	text := "\ufeff17 * * * * www-data it's%don't\r\n* * * * * root\n0 1 * * * root /opt/x\nX = 'a b'\n0 2 * * * root /opt/x\n@reboot root /opt/y"
	lines := ReadCrontab([]byte(text), CronOptions{Zone: "Asia/Kolkata", System: true, Prefix: "db1-"})
	var got []string
	for _, l := range lines {
		if l.Job == nil {
			got = append(got, "refused")
			continue
		}
		got = append(got, fmt.Sprintf("%s %s %q %s %s", l.Job.Name, l.Job.Run.User, l.Job.Run.Shell, l.Job.Run.Env, l.Job.Schedule.Timezone))
	}
	want := []string{
		`db1-it-s www-data "printf '%s' 'don'\\''t\n' | { it's\n}" map[] Asia/Kolkata`, "refused", `db1-x root "/opt/x" map[] Asia/Kolkata`, `db1-x-2 root "/opt/x" map[X:a b] Asia/Kolkata`, "refused",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Lines of a crontab that cron runs on get monitors, and ping them. What pings already stays as it is.
func TestWatchCrontab(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/crontab")
	if err != nil {
		t.Fatal(err)
	}
	o := CronOptions{Zone: "UTC"}
	lines := ReadCrontab(text, o)
	got := Watch(text, lines, o, 10*time.Minute, time.Hour)
	for _, want := range []string{
		"SHELL=/bin/bash\n", "# millrace does not watch this line: ", "\n@reboot /opt/agent/start\n", "\n# 0 0 * * * /opt/commented-out\n",
		"\n17 *\t* * *\tmillrace ping cron-hourly -- /bin/bash -c 'cd / && run-parts --report /etc/cron.hourly'\n",
		"\n0 4 * * 7 millrace ping pg_dump-2 -- pg_dump other\n", "\n@daily millrace ping certbot -- certbot renew -q\n",
		"-- /bin/bash -c 'pg_dump shop | gzip > /backup/shop-$(date +\\%F).sql.gz'\n",
		"0 9 * * mon millrace ping mail -- mail -s Report boss%Good morning,%here is \"the\" report.%\n",
		"\n# RANDOM_DELAY makes its grace 25m0s\n0 1 * * * millrace ping spread -- /opt/spread\n",
		"\n0 22 * * 1-5   millrace ping with-env -- /bin/bash -c 'FOO=bar /opt/with-env'\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the crontab lacks %q:\n%s", want, got)
		}
	}
	watched := 0
	for i := range lines {
		if j := lines[i].Job; j != nil {
			watched++
			if _, err := Marshal(*j); err != nil || !j.Monitors() || j.Run != nil {
				t.Errorf("line %d is %+v: %v", lines[i].Line, j, err)
			}
		}
	}
	if watched != 20 {
		t.Errorf("%d lines are watched", watched)
	}
	again := ReadCrontab([]byte(got), o)
	if twice := Watch([]byte(got), again, o, 10*time.Minute, time.Hour); strings.Count(twice, "millrace ping") != watched || strings.Contains(twice, "ping millrace") {
		t.Errorf("what pings already becomes\n%s", twice)
	}
	for i := range again {
		if j := again[i].Job; j != nil && j.Name == "millrace" {
			t.Errorf("line %d is called millrace", again[i].Line)
		}
	}
	system := "0 1 * * * root /opt/a b\n"
	lines = ReadCrontab([]byte(system), CronOptions{Zone: "UTC", System: true})
	if got := Watch([]byte(system), lines, CronOptions{System: true}, time.Minute, time.Hour); got != "0 1 * * * root millrace ping a -- /opt/a b\n" {
		t.Error(got)
	}
}
