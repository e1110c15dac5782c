package queue

import "millrace/task/value"

// Valve are the settings of a queue that say when its tasks flow. Each process that has to know
// passes them on whole to package schedule, whose Flow decides. The zero value is always open.
type Valve struct {
	// Window names the calendar in whose hours tasks of the queue start. Default: at any time.
	Window string `json:"window,omitzero" redact:"keep"`
}

// Always tells whether tasks flow at any time.
func (v *Valve) Always() bool { return *v == Valve{} }

// Calendars returns the calendars that say when tasks flow.
func (v *Valve) Calendars() []string {
	if v.Window == "" {
		return nil
	}
	return []string{v.Window}
}

// Words says inside of what tasks flow; "" if at any time.
func (v *Valve) Words() string {
	if v.Window == "" {
		return ""
	}
	return "the window " + v.Window
}

// valid returns the valve without its invalid settings.
func (v Valve) valid() Valve {
	if validWindow(v.Window) != nil {
		v.Window = ""
	}
	return v
}

// validWindow refuses an invalid name of a calendar; "" means no window.
func validWindow(name string) error {
	if name == "" {
		return nil
	}
	return value.ValidWindow("window", name)
}
