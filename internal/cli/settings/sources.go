package settings

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"millrace/internal/cli/term"
)

// Origin says in words where the value of a setting comes from.
type Origin = string

// Flags are the flags that override all other sources.
type Flags struct {
	set     *pflag.FlagSet
	profile string
	values  map[string]*flagValue
}

// flagValue is a setting's flag.
type flagValue string

func (v *flagValue) String() string        { return string(*v) }
func (v *flagValue) Set(text string) error { *v = flagValue(text); return nil }
func (*flagValue) Type() string            { return "value" }

// defaults describes the default of a setting, in a command whose default profile is this one.
func (d *Setting) defaults(profile string) string {
	value, other, others := d.prod, Dev, d.dev
	if profile == Dev {
		value, other, others = d.dev, Prod, d.prod
	}
	if value == others {
		return "default " + value
	}
	return fmt.Sprintf("default %s, with --profile %s %s", value, other, others)
}

// AddFlags gives a command a flag for every setting. Its help shows those for the processes that it
// starts; the others are accepted as well, so that one line can be given to all processes.
func AddFlags(fs *pflag.FlagSet, profile string, starts Processes) *Flags {
	f := &Flags{set: fs, values: map[string]*flagValue{}}
	InGroup(fs, GroupSettings, func() {
		fs.StringVar(&f.profile, "profile", "", fmt.Sprintf("which defaults hold: `dev|prod` (default %s; $MILLRACE_PROFILE)", profile))
		for _, d := range All {
			v := new(flagValue)
			fs.Var(v, d.Flag(), fmt.Sprintf("%s (%s; $%s)", d.Usage, d.defaults(profile), d.env()))
			fs.Lookup(d.Flag()).Hidden = d.processes != 0 && d.processes&starts == 0
			f.values[d.Name] = v
		}
	})
	return f
}

// Load adds up the settings from the defaults of the profile, the settings file (where, or the
// default one), the environment and the flags (nil for none), of which the later wins, and says
// where each comes from. profile applies if none of them names one. The error says which value is
// wrong, where it is and what is wanted.
func Load(where string, flags *Flags, profile string) (Values, map[string]Origin, error) {
	var s Values
	path, err := fileOf(where)
	if err != nil {
		return s, nil, err
	}
	file, err := readFile(path)
	if err != nil {
		return s, nil, err
	}
	// find looks up a setting in all sources but the defaults.
	find := func(name, flag, env string, flagValue *string) (value string, from Origin) {
		if flags != nil && flags.set.Changed(flag) {
			return *flagValue, "flag --" + flag
		}
		if v := os.Getenv(env); v != "" {
			return v, "env " + env
		}
		if v, ok := file[name]; ok {
			return v.text, fmt.Sprintf("file %s:%d", path, v.line)
		}
		return "", ""
	}
	var named *string
	if flags != nil {
		named = &flags.profile
	}
	origins := map[string]Origin{}
	wrong := func(name, value string, from Origin, err error) error {
		return &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("setting %s is %q (%s): %w", name, value, from, err), Hint: term.Hint("`millrace config` prints every setting and where it comes from")}
	}
	s.Profile, origins["profile"] = profile, "default"
	if value, from := find("profile", "profile", "MILLRACE_PROFILE", named); from != "" {
		if value != Dev && value != Prod {
			return s, nil, wrong("profile", value, from, fmt.Errorf("want %s or %s", Dev, Prod))
		}
		s.Profile, origins["profile"] = value, from
	}
	for _, d := range All {
		var named *string
		if flags != nil {
			named = (*string)(flags.values[d.Name])
		}
		value, from := find(d.Name, d.Flag(), d.env(), named)
		if from == "" {
			value, from = d.prod, "profile "+s.Profile
			if s.Profile == Dev {
				value = d.dev
			}
		}
		if err := d.read(&s, value); err != nil {
			return s, nil, wrong(d.Name, value, from, err)
		}
		origins[d.Name] = from
	}
	if s.NodeTTL <= s.Beat {
		return s, nil, wrong("node_ttl", s.NodeTTL.String(), origins["node_ttl"], fmt.Errorf("want more than beat, which is %v (%s)", s.Beat, origins["beat"]))
	}
	return s, origins, nil
}

// fileOf returns the path of the settings file; "" if there is none and none was requested.
func fileOf(path string) (string, error) {
	if path == "" {
		path = os.Getenv("MILLRACE_CONFIG")
	}
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("settings file: %w", err), Hint: term.Hint("--config and $MILLRACE_CONFIG name it; without either it is optional")}
		}
		return path, nil
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", nil // a machine without a home has no settings there
	}
	path = filepath.Join(folder, "millrace", "config.yaml")
	if _, err := os.Stat(path); err != nil {
		return "", nil
	}
	return path, nil
}
