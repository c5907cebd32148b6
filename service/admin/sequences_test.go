package admin

import (
	"context"

	"shardid/model"
)

const (
	spaceJSON    = `{"sections":64,"step":1000}`
	spaceTarget  = `"target":"space chat",#`
	actionSpaces = "space." // begins actions on spaces
)

var space = model.Space{Name: "chat", Sections: 64, Step: 1000}

func (f *fakeStore) Spaces(context.Context) ([]model.SpaceUse, error) { return nil, f.err }
func (f *fakeStore) Space(context.Context, string) (model.SpaceUse, error) {
	return model.SpaceUse{}, f.err
}

func (f *fakeStore) CreateSpace(ctx context.Context, _ model.Space) (model.Space, error) {
	return space, f.call(ctx)
}

func (f *fakeStore) ChangeSpace(ctx context.Context, _ string, step int64) (was, is model.Space, err error) {
	is = space
	is.Step = step
	return space, is, f.call(ctx)
}

func (f *fakeStore) DeleteSpace(ctx context.Context, _ string) (model.Space, error) {
	return space, f.call(ctx)
}
