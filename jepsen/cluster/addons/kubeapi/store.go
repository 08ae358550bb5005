package kubeapi

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// store keeps the objects, and every change of them.
type store struct {
	mu      sync.Mutex
	objects map[Ref]Object
	changes []change
	changed chan struct{} // closed by the next change
}

// change is one event as watchers have it. Its version is its place.
type change struct {
	ref    Ref
	kind   string // ADDED, MODIFIED or DELETED
	object Object
}

func newStore() *store { return &store{objects: map[Ref]Object{}, changed: make(chan struct{})} }

// problem is an error as clients of the API know it.
type problem struct {
	code            int
	reason, message string
}

func (p *problem) Error() string { return p.reason + ": " + p.message }

func refuse(code int, reason, format string, args ...any) *problem {
	return &problem{code, reason, fmt.Sprintf(format, args...)}
}

// record writes an object, or with DELETED its end. The lock is held.
func (s *store) record(ref Ref, kind string, o Object) Object {
	o.Meta()["resourceVersion"] = strconv.Itoa(len(s.changes) + 1)
	s.changes = append(s.changes, change{ref, kind, o})
	s.objects[ref] = o
	if kind == "DELETED" {
		delete(s.objects, ref)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return o
}

func (s *store) get(ref Ref) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[ref]; ok {
		return o, nil
	}
	return nil, refuse(http.StatusNotFound, "NotFound", "%s not found", ref)
}

func (s *store) create(r resource, ref Ref, given Object) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.objects[ref]; exists {
		return nil, refuse(http.StatusConflict, "AlreadyExists", "%s already exists", ref)
	}
	made := given.clone()
	if r.status {
		delete(made, "status") // a new object has none, whoever makes it
	}
	made["kind"], made["apiVersion"] = r.kind, r.groupVersion()
	meta := made.Meta()
	meta["name"], meta["generation"], meta["creationTimestamp"] = ref.Name, float64(1), time.Now().UTC().Format(time.RFC3339)
	meta["uid"] = fmt.Sprintf("00000000-0000-0000-0000-%012d", len(s.changes)+1)
	if r.namespaced {
		meta["namespace"] = ref.Namespace
	}
	return s.record(ref, "ADDED", made), nil
}

// update replaces an object by what edit makes of it, unless it is of another version than the one that was read.
func (s *store) update(r resource, ref Ref, status bool, edit func(old Object) (Object, error)) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.objects[ref]
	if !exists {
		return nil, refuse(http.StatusNotFound, "NotFound", "%s not found", ref)
	}
	given, err := edit(old.clone())
	if err != nil {
		return nil, err
	}
	if read := given.Text("metadata", "resourceVersion"); read != "" && read != old.Text("metadata", "resourceVersion") {
		return nil, refuse(http.StatusConflict, "Conflict", "%s has been modified since it was read", ref)
	}
	made := r.replaced(old, given, status)
	switch {
	case same(made, old):
		return old, nil
	case made.deleted() && len(made.Texts("metadata", "finalizers")) == 0:
		return s.record(ref, "DELETED", made), nil
	}
	return s.record(ref, "MODIFIED", made), nil
}

// remove ends an object, or marks it until its finalizers are gone.
func (s *store) remove(ref Ref) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.objects[ref]
	if !exists {
		return nil, refuse(http.StatusNotFound, "NotFound", "%s not found", ref)
	}
	made := old.clone()
	switch {
	case len(old.Texts("metadata", "finalizers")) == 0:
		return s.record(ref, "DELETED", made), nil
	case old.deleted():
		return old, nil
	}
	made.Meta()["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	made.Meta()["generation"] = number(old.Get("metadata", "generation")) + 1
	return s.record(ref, "MODIFIED", made), nil
}
