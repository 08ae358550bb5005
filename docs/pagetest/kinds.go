package pagetest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
)

// short are the names that the API server adds to those of kinds.
var short = map[string]string{"pv": "PersistentVolume", "pvc": "PersistentVolumeClaim"}

// types are the types of Kubernetes' kinds.
var types = sync.OnceValue(func() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		for kind, of := range scheme.Scheme.KnownTypes(version) {
			if _, ok := all[kind]; !ok {
				all[kind] = of
			}
		}
	}
	return all
})

// kindOf is the kind of a resource, in the singular, the plural or short.
func kindOf(resource string) (string, error) {
	if kind, ok := short[resource]; ok {
		return kind, nil
	}
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		for kind := range scheme.Scheme.KnownTypes(version) {
			plural, singular := meta.UnsafeGuessKindToResource(version.WithKind(kind))
			if resource == plural.Resource || resource == singular.Resource {
				return kind, nil
			}
		}
	}
	return "", fmt.Errorf("Kubernetes has no resource %q", resource)
}

func newOf(kind string) any { return reflect.New(types()[kind]).Interface() }

// hasField follows a path such as .spec.drivers[*].name through the type of a kind.
func hasField(kind, path string) error {
	at := types()[kind]
	for name := range strings.SplitSeq(strings.TrimPrefix(strings.ReplaceAll(path, "[*]", ""), "."), ".") {
		next, ok := fieldOf(at, name)
		if !ok {
			return fmt.Errorf("%s has no field %s: there is no %q", kind, path, name)
		}
		at = next
	}
	return nil
}

// fieldOf is the type of a field by its name in JSON, also of what a pointer or a list has.
func fieldOf(of reflect.Type, name string) (reflect.Type, bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil, false
	}
	for field := range of.Fields() {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == name {
			return field.Type, true
		}
		if field.Anonymous && tag == "" {
			if found, ok := fieldOf(field.Type, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}
