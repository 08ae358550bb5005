package kit

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// every is how often a wait looks: the precision of the times in reports.
const every = 50 * time.Millisecond

// Until asks until it is answered without an error, and returns the last error when that takes too long.
func Until(ctx context.Context, within time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if Sleep(ctx, every) != nil {
			return fmt.Errorf("after %s: %w", within, err)
		}
	}
}

// Wait waits until an object is as wanted.
func (k *Kit) Wait(ctx context.Context, within time.Duration, resource, name string, wanted Wanted) error {
	return Until(ctx, within, func() error {
		object, err := k.Get(ctx, resource, name)
		if err != nil {
			return err
		}
		if why := wanted(object); why != "" {
			return fmt.Errorf("%s %s: %s", resource, name, why)
		}
		return nil
	})
}

// Gone waits until there is no such object.
func (k *Kit) Gone(ctx context.Context, within time.Duration, resource, name string) error {
	return Until(ctx, within, func() error {
		_, err := k.Get(ctx, resource, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s %s is there", resource, name)
		}
		return err
	})
}

// Wanted says why an object is not as wanted; nothing when it is.
type Wanted func(*unstructured.Unstructured) string

// Phase wants a status.phase.
func Phase(phase string) Wanted { return Field(phase, "status", "phase") }

// Field wants a field to have a value, as it is printed.
func Field(value string, path ...string) Wanted {
	return func(o *unstructured.Unstructured) string {
		got, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
		if found && fmt.Sprint(got) == value {
			return ""
		}
		return fmt.Sprintf("%v is %v, not %s", path, got, value)
	}
}

// Condition wants a condition to be true.
func Condition(kind string) Wanted {
	return func(o *unstructured.Unstructured) string {
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range all {
			if c, ok := c.(map[string]any); ok && c["type"] == kind {
				if c["status"] == "True" {
					return ""
				}
				return fmt.Sprintf("%s is %v: %v", kind, c["status"], c["message"])
			}
		}
		return "it has no condition " + kind
	}
}

// Text is a string field, empty where there is none.
func Text(o *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return text
}
