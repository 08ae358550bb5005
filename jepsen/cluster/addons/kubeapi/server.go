package kubeapi

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// Server is one stand-in, with one token that may do everything.
type Server struct {
	store   *store
	token   string
	http    *http.Server
	address string
	ca      []byte
}

// Serve serves on a listener, whose address clients are told, until Close.
func Serve(listener net.Listener) (*Server, error) {
	host, _, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	cert, ca, err := certify(host)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	s := &Server{store: newStore(), token: rand.Text(), address: listener.Addr().String(), ca: ca}
	s.http = &http.Server{Handler: s, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.http.ServeTLS(listener, "", "") }() // it ends by Close
	return s, nil
}

// Close ends all connections.
func (s *Server) Close() error { return s.http.Close() }

// Address is where it listens.
func (s *Server) Address() string { return s.address }

// WriteAccount writes what a pod finds of its service account in a directory: the token, who signed the server's certificate, and
// the pod's namespace.
func (s *Server) WriteAccount(dir, namespace string) error {
	for name, text := range map[string][]byte{"token": []byte(s.token), "ca.crt": s.ca, "namespace": []byte(namespace)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Create makes an object. As for every client, its status is not taken where it has a path of its own.
func (s *Server) Create(ref Ref, o Object) (Object, error) {
	r, known := find(ref.Resource)
	if !known {
		return nil, fmt.Errorf("there is no resource %s", ref.Resource)
	}
	return s.store.create(r, ref, o)
}

// Get is an object as it is now; it must not be changed.
func (s *Server) Get(ref Ref) (Object, error) { return s.store.get(ref) }

// List are all objects of a resource.
func (s *Server) List(name string) []Object {
	r, _ := find(name)
	all, _ := s.store.list(selection{resource: r})
	return all
}

// Update edits an object, without its status.
func (s *Server) Update(ref Ref, edit func(Object)) error { return s.edit(ref, false, edit) }

// UpdateStatus edits an object's status alone.
func (s *Server) UpdateStatus(ref Ref, edit func(Object)) error { return s.edit(ref, true, edit) }

func (s *Server) edit(ref Ref, status bool, edit func(Object)) error {
	r, known := find(ref.Resource)
	if !known {
		return fmt.Errorf("there is no resource %s", ref.Resource)
	}
	_, err := s.store.update(r, ref, status, func(o Object) (Object, error) { edit(o); return o, nil })
	return err
}

// Delete ends an object once its finalizers are gone.
func (s *Server) Delete(ref Ref) error {
	_, err := s.store.remove(ref)
	return err
}
