// Package stage is the full screen on which a person steps through a log. It has three parts: a [Model], which a key or the
// answer of a command changes; [View], which draws it; and [Run], which carries keys, commands and pictures between a
// terminal and a session. What there is to say comes from the session: the screen knows no rule.
package stage
