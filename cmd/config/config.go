// Package config fills a command's flags from the environment and from a YAML
// file. A flag on the command line wins over HOLDFAST_*, which wins over the
// file, which wins over the default. The file's keys are the flags' names; an
// unknown key is an error.
package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// FileFlag names the flag with the file's path.
const FileFlag = "config"

// AddFlag adds the flag with the file's path.
func AddFlag(flags *pflag.FlagSet) {
	flags.String(FileFlag, "", "YAML `file` whose keys are the names of these flags; the command line and HOLDFAST_* win over it")
}

// EnvName is the environment variable of a flag: --data-dir is HOLDFAST_DATA_DIR.
func EnvName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// onlyOnCommandLine marks the flags that neither the environment nor a file sets.
const onlyOnCommandLine = "holdfast_only_on_command_line"

// OnlyOnCommandLine has Fill leave a flag alone: one that is of a single call.
func OnlyOnCommandLine(flags *pflag.FlagSet, name string) {
	f := flags.Lookup(name)
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[onlyOnCommandLine] = []string{"true"}
}

// IsOnlyOnCommandLine tells whether Fill leaves a flag alone.
func IsOnlyOnCommandLine(f *pflag.Flag) bool { return len(f.Annotations[onlyOnCommandLine]) > 0 }

// Fill sets every flag that the command line did not set. lookup reads the environment.
func Fill(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	if err := fillFromEnv(flags, lookup); err != nil {
		return err
	}
	file := flags.Lookup(FileFlag)
	if file == nil || file.Value.String() == "" {
		return nil
	}
	return fillFromFile(flags, file.Value.String())
}

func fillFromEnv(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs error
	flags.VisitAll(func(f *pflag.Flag) {
		value, given := lookup(EnvName(f.Name))
		if !given || f.Changed || f.Name == "help" || IsOnlyOnCommandLine(f) || errs != nil {
			return
		}
		values := []string{value}
		if _, list := f.Value.(pflag.SliceValue); list {
			values = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		}
		if err := setFlag(flags, f, values); err != nil {
			errs = fmt.Errorf("environment variable %s: %w", EnvName(f.Name), err)
		}
	})
	return errs
}

func fillFromFile(flags *pflag.FlagSet, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w; name an existing file with --config", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("configuration %s is not YAML: %w", path, err)
	}
	if doc.Kind == 0 {
		return nil // an empty file
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("configuration %s, line %d: it must be keys with values, like `data-dir: /var/lib/holdfast`", path, top.Line)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if err := fillKey(flags, key.Value, value, seen); err != nil {
			return fmt.Errorf("configuration %s, line %d: %w", path, key.Line, err)
		}
	}
	return nil
}

func fillKey(flags *pflag.FlagSet, key string, value *yaml.Node, seen map[string]bool) error {
	f := flags.Lookup(key)
	if f == nil || key == FileFlag || key == "help" {
		return fmt.Errorf("unknown key %q; the keys are the flags that --help lists", key)
	}
	if seen[key] {
		return fmt.Errorf("key %q is there twice; keep one", key)
	}
	seen[key] = true
	values, err := scalars(key, value)
	if err != nil || f.Changed {
		return err
	}
	if _, list := f.Value.(pflag.SliceValue); !list && len(values) != 1 {
		return fmt.Errorf("key %q takes one value, not a list", key)
	}
	if err := setFlag(flags, f, values); err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	return nil
}

func scalars(key string, value *yaml.Node) ([]string, error) {
	switch value.Kind {
	case yaml.ScalarNode:
		return []string{value.Value}, nil
	case yaml.SequenceNode:
		var out []string
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("key %q: its list may hold plain values only", key)
			}
			out = append(out, item.Value)
		}
		return out, nil
	}
	return nil, fmt.Errorf("key %q takes a value or a list of values", key)
}

// setFlag sets a flag's values and marks it as set, so that later sources leave it alone.
func setFlag(flags *pflag.FlagSet, f *pflag.Flag, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		f.Changed = true
		return list.Replace(values)
	}
	if err := flags.Set(f.Name, values[0]); err != nil {
		return fmt.Errorf("%q does not fit --%s (%s): %w", values[0], f.Name, f.Value.Type(), unwrapError(err))
	}
	return nil
}

// unwrapError returns the reason inside pflag's error, without the text that pflag adds.
func unwrapError(err error) error {
	if next := errors.Unwrap(err); next != nil {
		return next
	}
	return err
}
