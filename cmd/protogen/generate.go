package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const module = "github.com/holdfast-storage/holdfast"

// plugins are tools of go.mod.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

// generate returns the content of every generated file, by its path relative to root.
func generate(ctx context.Context, root string) (map[string][]byte, error) {
	sources, err := find(root, ".proto")
	if err != nil {
		return nil, err
	}
	request, err := compile(ctx, root, sources)
	if err != nil {
		return nil, err
	}
	generated := map[string][]byte{}
	for _, plugin := range plugins {
		response, err := runPlugin(ctx, root, plugin, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		for _, f := range response.GetFile() {
			generated[f.GetName()] = []byte(f.GetContent())
		}
	}
	return generated, nil
}

func compile(ctx context.Context, root string, sources []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	files, err := compiler.Compile(ctx, sources...)
	if err != nil {
		return nil, err
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: sources,
		Parameter:      proto.String("module=" + module),
		ProtoFile:      withImports(files),
	}, nil
}

// withImports orders files after those they import, as plugins require.
func withImports(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i))
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		add(f)
	}
	return all
}

// runPlugin runs a plugin, which reads its request from stdin and writes its response to stdout.
func runPlugin(ctx context.Context, root, plugin string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	var out, diagnostics bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, bytes.NewReader(in), &out, &diagnostics
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, diagnostics.Bytes())
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out.Bytes(), &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return &response, nil
}
