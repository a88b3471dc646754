"""/v1/users: whose memories there are, and forgetting somebody altogether."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from scrubjay.server.keys import Right
from scrubjay.server.replies import ForgottenUserReply, Json, UsersReply
from scrubjay.server.service import CallerGiven, ServiceGiven, UserInPath, decode_part

router = APIRouter(prefix="/v1", tags=["users"])


@router.get("/users", response_model=UsersReply)
async def list_users(
    service: ServiceGiven,
    caller: CallerGiven,
    after: Annotated[str, Query(description="List those after this id.")] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> Json:
    """List the users who have a memory here and whom the key is for, sorted, a page at a time."""
    caller.require(Right.READ)
    everybody = await service.threads.read(service.home.users)
    rest = everybody[bisect_right(everybody, after) :]
    users = list(islice((user for user in rest if caller.covers(user)), limit + 1))
    return Json({"users": users[:limit], "next": users[limit - 1] if len(users) > limit else None})


@router.delete("/users/{user}", response_model=ForgottenUserReply)
async def forget_user(service: ServiceGiven, caller: CallerGiven, user: UserInPath) -> Json:
    """Delete a user's memory, log and all; doing so again changes nothing."""
    user_id = decode_part(user)
    caller.require(Right.ADMIN, user_id)
    forgotten = await service.threads.write(partial(service.home.forget, user_id))
    return Json({"user": user_id, "forgotten": forgotten})
