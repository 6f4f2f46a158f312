package inbox

import (
	"errors"
	"fmt"
)

// ErrFuncKey is what ParseKey returns for a rule that names a func: such a key
// can only be derived inside the service that has the code.
var ErrFuncKey = errors.New("a func is code and cannot be read from a rule: build this key with KeyFunc, in the service that has it")

// KeyFunc makes a Key of a func. It is registered with the consumer as
// func:<name>; give a changed func another name, its keys are others.
//
// f must return the same key for every copy of a message, and different keys
// for different intents; build keys of several parts with FrameKey. It may
// return Skip for messages that nobody handles, and an error that wraps
// ErrNoKey, or a blank key, for those without a key. Other errors are returned
// with the func's name before them. It must not change the message, and is
// called concurrently.
//
// An empty name or a nil func is what CheckKey reports at start; unchecked, Of
// returns it as an error of class Config.
func KeyFunc(name string, f func(Message) (string, error)) Key {
	return &funcKey{name: name, f: f}
}

type funcKey struct {
	name string
	f    func(Message) (string, error)
}

func (k *funcKey) Of(m Message) (string, error) {
	if err := k.fault(); err != nil {
		return "", ConfigError("derive key", err)
	}
	v, err := k.f(m)
	switch {
	case errors.Is(err, Skip):
		return "", err
	case err != nil:
		return "", fmt.Errorf("%s: %w", k, err)
	case BlankKey(v):
		return "", absentf("%s gives a blank key", k)
	}
	return v, nil
}

func (k *funcKey) String() string { return "func:" + quoteName(k.name) }

func (k *funcKey) fault() error {
	switch {
	case k.name == "":
		return errors.New("KeyFunc: name is empty: give the name under which the key rule is registered")
	case k.f == nil:
		return fmt.Errorf("KeyFunc %q: func is nil", k.name)
	}
	return nil
}

// CheckKey finds the faults of a Key that was built in code: those that
// KeyFunc cannot report. For whatever takes a Key in its configuration. Keys of
// ParseKey have none, and neither has nil, which stands for the default.
func CheckKey(k Key) error {
	var faults []error
	switch k := k.(type) {
	case *firstOf:
		for _, s := range k.keys {
			faults = append(faults, CheckKey(s))
		}
	case *funcKey:
		faults = append(faults, k.fault())
	}
	return errors.Join(faults...)
}
