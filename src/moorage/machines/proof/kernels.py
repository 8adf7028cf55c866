"""What runs on the GPU, as PTX: every NVIDIA driver compiles it for its own device, so no compiler or toolkit is needed there.

`fill` writes the number of each place (`values.gpu_number`). `add_up` reads all of it as often as it is told to, as fast as the memory goes:
four numbers at a time, two such reads under way for each thread. What a thread makes of its share (`values.gpu_sum`) can be checked by itself.
"""

_MIX = """
    shr.u32 %r20, {0}, 16;  xor.b32 {0}, {0}, %r20;  mul.lo.u32 {0}, {0}, 0x7feb352d;
    shr.u32 %r20, {0}, 15;  xor.b32 {0}, {0}, %r20;  mul.lo.u32 {0}, {0}, 0x846ca68b;
    shr.u32 %r20, {0}, 16;  xor.b32 {0}, {0}, %r20;
"""

PTX = (
    """
.version 6.0
.target sm_50
.address_size 64

.visible .entry fill(
    .param .u64 memory, .param .u64 count, .param .u32 low, .param .u32 high, .param .u32 rounds)
{
    .reg .pred %p<3>;
    .reg .b32 %r<24>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [memory];
    ld.param.u64 %rd2, [count];
    ld.param.u32 %r1, [low];
    ld.param.u32 %r2, [high];
    ld.param.u32 %r3, [rounds];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mov.u32 %r6, %tid.x;
    mov.u32 %r7, %nctaid.x;
    mul.wide.u32 %rd3, %r4, %r5;
    cvt.u64.u32 %rd4, %r6;
    add.u64 %rd3, %rd3, %rd4;
    mul.wide.u32 %rd5, %r7, %r5;
NEXT:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra DONE;
    cvt.u32.u64 %r8, %rd3;
    xor.b32 %r8, %r8, %r1;
    shr.u64 %rd6, %rd3, 32;
    cvt.u32.u64 %r9, %rd6;
    xor.b32 %r9, %r9, %r2;
"""
    + _MIX.format("%r9")
    + "    add.u32 %r8, %r8, %r9;\n"
    + _MIX.format("%r8")
    + """
    mov.u32 %r10, %r3;
AGAIN:
    setp.eq.u32 %p2, %r10, 0;
    @%p2 bra WRITE;
    add.u32 %r8, %r8, 0x9e3779b9;
"""
    + _MIX.format("%r8")
    + """
    sub.u32 %r10, %r10, 1;
    bra AGAIN;
WRITE:
    shl.b64 %rd7, %rd3, 2;
    add.u64 %rd8, %rd1, %rd7;
    st.global.u32 [%rd8], %r8;
    add.u64 %rd3, %rd3, %rd5;
    bra NEXT;
DONE:
    ret;
}

.visible .entry add_up(
    .param .u64 memory, .param .u64 quads, .param .u64 sums, .param .u32 factor, .param .u32 passes)
{
    .reg .pred %p<4>;
    .reg .b32 %r<24>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd1, [memory];
    ld.param.u64 %rd2, [quads];
    ld.param.u64 %rd3, [sums];
    ld.param.u32 %r1, [factor];
    ld.param.u32 %r2, [passes];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd3, %rd3;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mov.u32 %r6, %tid.x;
    mov.u32 %r7, %nctaid.x;
    mul.wide.u32 %rd4, %r4, %r5;
    cvt.u64.u32 %rd5, %r6;
    add.u64 %rd4, %rd4, %rd5;
    mul.wide.u32 %rd6, %r7, %r5;
    shl.b64 %rd7, %rd6, 4;
    mov.u32 %r8, 0;
PASS:
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra WRITE;
    mov.u64 %rd8, %rd4;
    shl.b64 %rd9, %rd8, 4;
    add.u64 %rd9, %rd1, %rd9;
TWO:
    add.u64 %rd10, %rd8, %rd6;
    setp.ge.u64 %p2, %rd10, %rd2;
    @%p2 bra ONE;
    add.u64 %rd11, %rd9, %rd7;
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd9];
    ld.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd11];
    mad.lo.u32 %r8, %r8, %r1, %r10;
    mad.lo.u32 %r8, %r8, %r1, %r11;
    mad.lo.u32 %r8, %r8, %r1, %r12;
    mad.lo.u32 %r8, %r8, %r1, %r13;
    mad.lo.u32 %r8, %r8, %r1, %r14;
    mad.lo.u32 %r8, %r8, %r1, %r15;
    mad.lo.u32 %r8, %r8, %r1, %r16;
    mad.lo.u32 %r8, %r8, %r1, %r17;
    add.u64 %rd8, %rd10, %rd6;
    add.u64 %rd9, %rd11, %rd7;
    bra TWO;
ONE:
    setp.ge.u64 %p3, %rd8, %rd2;
    @%p3 bra NEXT;
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd9];
    mad.lo.u32 %r8, %r8, %r1, %r10;
    mad.lo.u32 %r8, %r8, %r1, %r11;
    mad.lo.u32 %r8, %r8, %r1, %r12;
    mad.lo.u32 %r8, %r8, %r1, %r13;
NEXT:
    add.u32 %r1, %r1, 2;
    sub.u32 %r2, %r2, 1;
    bra PASS;
WRITE:
    shl.b64 %rd12, %rd4, 2;
    add.u64 %rd13, %rd3, %rd12;
    st.global.u32 [%rd13], %r8;
    ret;
}
"""
)
