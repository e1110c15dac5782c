package schedule

import (
	"fmt"
	"time"
)

// Never returns why no tick comes after a time, or [Plan.Slip]; nil if one comes. The error begins
// with the name of a field.
func (p *Plan) Never(now time.Time) error {
	if err := p.Slip(); err != nil {
		return err
	}
	if _, comes := p.next(now); comes {
		return nil
	}
	open := *p
	open.blackouts = nil
	_, comes := open.next(now)
	at := p.only.at
	switch {
	case comes:
		return fmt.Errorf("calendar leaves out every planned run")
	case p.At != "" && !at.After(now):
		return fmt.Errorf("at is %s, which has passed", p.At)
	case p.At != "" && at.Before(p.start):
		return fmt.Errorf("at is %s, which is before start (%s)", p.At, p.Start)
	case p.At != "":
		return fmt.Errorf("at is %s, which is after end (%s)", p.At, p.End)
	case !p.end.IsZero() && !p.end.After(now):
		return fmt.Errorf("end is %s, which has passed", p.End)
	case p.end.IsZero():
		return fmt.Errorf("cron is %q, which never comes", p.Cron)
	}
	const early = "end is %s, before the first planned run"
	p = &open
	p.end = time.Time{}
	if first, comes := p.next(now); comes {
		return fmt.Errorf(early+" (%s)", p.End, first.at.In(p.zone).Format(time.DateTime))
	}
	return fmt.Errorf(early, p.End)
}
